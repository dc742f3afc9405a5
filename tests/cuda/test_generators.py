"""Generators and the device that they draw for."""

import copy
import pickle

import pytest
import torch
from torch import bernoulli, multinomial  # bound before the card is there

pytestmark = pytest.mark.usefixtures("cuda")


def test_a_host_generator_is_refused_on_the_device():
    host = torch.Generator()
    for draw in (
        lambda: torch.randn(3, device="cuda", generator=host),
        lambda: torch.empty(3, device="cuda").normal_(generator=host),
        lambda: torch.multinomial(torch.ones(3, device="cuda"), 2, generator=host),
    ):
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            draw()


def test_a_device_generator_is_refused_on_the_host():
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.randn(3, generator=torch.Generator("cuda"))


def test_a_device_generator_draws_for_tensors_that_are_there():
    x, generator = torch.ones(3, device="cuda"), torch.Generator("cuda")
    first = torch.normal(x, 1.0, generator=generator.manual_seed(1))
    assert torch.equal(first, torch.normal(x, 1.0, generator=generator.manual_seed(1)))
    assert torch.normal(0.0, 1.0, (2,), device="cuda", generator=generator).is_cuda


def test_the_state_of_a_generator_holds_its_seed():
    one, other = torch.Generator("cuda").manual_seed(5), torch.Generator("cuda")
    other.set_state(one.get_state())
    assert other.initial_seed() == 5


def test_a_state_of_the_hosts_generator_is_refused():
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.cuda.set_rng_state(torch.get_rng_state())


@pytest.mark.parametrize("again", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), lambda g: g.clone_state()])
def test_a_copied_generator_goes_on_alike_on_its_device(again):
    generator = torch.Generator("cuda").manual_seed(3)
    twin = again(generator)
    assert twin.device.type == "cuda"
    one, other = (torch.rand(4, device="cuda", generator=g) for g in (generator, twin))
    assert torch.equal(one, other)


def test_a_new_generator_is_the_hosts_whatever_the_default_device_is():
    with torch.device("cuda"):
        assert torch.Generator().device.type == "cpu"
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            sorted(torch.utils.data.RandomSampler(range(3)))


def test_the_default_device_does_not_fit_the_hosts_default_generator():
    with torch.device("cuda"), pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.utils.data.random_split(range(4), [2, 2])


def test_reading_the_state_is_no_operation_of_the_program():
    from gpulab import observe

    with observe() as seen:
        torch.cuda.set_rng_state(torch.cuda.get_rng_state())
    assert not [op for op in seen.ops if op.op == "aten.cat"]


def test_the_state_of_a_generator_is_its_seed_and_its_offset():
    generator = torch.Generator("cuda").manual_seed(7)
    assert generator.get_state().tolist() == [7, *[0] * 15] and generator.get_offset() == 0
    first = torch.rand(4, device="cuda", generator=generator)
    assert generator.get_offset() == 4 and generator.get_state()[8:].view(torch.int64).item() == 4
    second = torch.rand(4, device="cuda", generator=generator)
    generator.set_offset(0)
    assert torch.equal(torch.rand(4, device="cuda", generator=generator), first)
    assert torch.equal(torch.rand(4, device="cuda", generator=generator), second) and not torch.equal(first, second)


def test_an_offset_between_two_draws_is_refused():
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        torch.Generator("cuda").set_offset(3)


def test_neighbouring_seeds_and_offsets_draw_numbers_that_have_nothing_in_common():
    drawn = []
    for seed in range(8):
        generator = torch.Generator("cuda").manual_seed(seed)
        drawn += [torch.randn(500, device="cuda", generator=generator) for _ in range(8)]
    related = torch.corrcoef(torch.stack(drawn)) - torch.eye(64, device="cuda")
    assert related.abs().max().item() < 0.25


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(3, device="cuda"),
        lambda: torch.ones(3, device="cuda").uniform_(),
        lambda: torch.rand_like(torch.ones(3, device="cuda")),
        lambda: torch.rand(3, out=torch.empty(3, device="cuda"), device="cuda"),
        lambda: torch.nn.functional.dropout(torch.ones(64, device="cuda")),
    ],
    ids=["rand", "uniform_", "rand_like", "out=", "dropout"],
)
def test_every_operation_that_draws_moves_the_offset_once_and_draws_again_from_where_it_was(draw):
    generator = torch.cuda.default_generators[0]
    torch.cuda.manual_seed(1)
    first = draw()
    assert generator.get_offset() == 4
    second = draw()
    assert generator.get_offset() == 8 and not torch.equal(first, second)
    generator.set_offset(4)
    assert torch.equal(draw(), second)


HOST_DRAWS = {
    "uniform_": lambda x, generator: x.uniform_(generator=generator),
    "normal_": lambda x, generator: x.normal_(generator=generator),
    "random_": lambda x, generator: x.random_(generator=generator),
    "bernoulli_": lambda x, generator: x.bernoulli_(generator=generator),
    "exponential_": lambda x, generator: x.exponential_(generator=generator),
    "cauchy_": lambda x, generator: x.cauchy_(generator=generator),
    "geometric_": lambda x, generator: x.geometric_(0.5, generator=generator),
    "log_normal_": lambda x, generator: x.log_normal_(generator=generator),
    "bernoulli": lambda x, generator: bernoulli(x, generator=generator),
    "multinomial": lambda x, generator: multinomial(x, 2, generator=generator),
    "normal": lambda x, generator: torch.normal(x, 1.0, generator=generator),
    "poisson": lambda x, generator: torch.poisson(x, generator=generator),
    "rand_like": lambda x, generator: torch.rand_like(x, generator=generator),
    "randint": lambda x, generator: torch.randint(3, (2,), generator=generator),
    "init": lambda x, generator: torch.nn.init.normal_(x, generator=generator),
    "sampler": lambda x, generator: list(torch.utils.data.WeightedRandomSampler([1.0, 1.0], 2, generator=generator)),
}


@pytest.mark.parametrize("name", HOST_DRAWS)
def test_whatever_draws_on_the_host_refuses_a_device_generator(name):
    before = torch.ones(4)
    x = before.clone()
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        HOST_DRAWS[name](x, torch.Generator("cuda"))
    assert torch.equal(x, before)


def test_permutations_on_the_host_refuse_a_device_generator():
    for draw in (
        lambda generator: torch.randperm(3, generator=generator),
        lambda generator: list(torch.utils.data.RandomSampler(range(3), generator=generator)),
        lambda generator: torch.utils.data.random_split(range(4), [2, 2], generator=generator),
    ):
        with pytest.raises(RuntimeError, match="Expected a 'cpu' generator device but found 'cuda"):
            draw(torch.Generator("cuda"))


@pytest.mark.parametrize("draw", [torch.poisson, lambda x, generator: torch.binomial(x, x / 2, generator=generator)])
def test_a_generator_that_is_no_keyword_of_the_operator_draws_alike(draw):
    x, generator = torch.full((8,), 9.0, device="cuda"), torch.Generator("cuda")
    first = draw(x, generator=generator.manual_seed(1))
    assert torch.equal(first, draw(x, generator=generator.manual_seed(1)))
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        draw(x, generator=torch.Generator())
