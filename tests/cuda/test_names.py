"""Every public name of torch.cuda, torch.accelerator and torch.distributed works on the virtual card or is refused by its name."""

import pytest
import torch
import torch.distributed as dist

import gpulab.cuda
from gpulab.collectives import run_ranks
from gpulab.cuda import NotModelled
from gpulab.names import ACCELERATOR, CUDA, DISTRIBUTED, REFUSED, WORKS, in_ranks, outcome

EITHER = {WORKS, REFUSED}


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("names", (CUDA, ACCELERATOR), ids=lambda names: names.module)
def test_each_works_or_says_by_name_that_it_does_not(names):
    assert {outcome(call) for call in names.calls.values()} == EITHER


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("names", (CUDA, ACCELERATOR), ids=lambda names: names.module)
def test_a_refusal_says_the_name(names):
    for name, call in names.calls.items():
        if outcome(call) == REFUSED:
            with pytest.raises(NotModelled, match=name):
                call()


def test_each_of_torch_distributed_does_in_two_ranks():
    for said in run_ranks(in_ranks, 2).results:
        assert said.keys() == DISTRIBUTED.calls.keys() and set(said.values()) == EITHER


@pytest.mark.parametrize(
    ("names", "public"),
    (
        (CUDA, torch.cuda.__all__),
        (ACCELERATOR, torch.accelerator.__all__),
        (DISTRIBUTED, [name for name in dir(dist) if name[0] != "_" and callable(getattr(dist, name))]),
    ),
    ids=("torch.cuda", "torch.accelerator", "torch.distributed"),
)
def test_no_public_name_is_forgotten(names, public):
    known = {*names.calls, *(name for others in names.others.values() for name in others)}
    assert set(public) <= known


def test_a_name_that_raises_something_else_is_no_refusal():
    def other() -> None:
        raise RuntimeError("Torch not compiled with CUDA enabled")

    with pytest.raises(RuntimeError):
        outcome(other)


@pytest.mark.usefixtures("cuda")
def test_a_legacy_type_makes_tensors_and_knows_its_own():
    made = torch.cuda.HalfTensor([1, 2])
    assert made.is_cuda and made.dtype is torch.float16 and made.tolist() == [1, 2]
    assert torch.cuda.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(made, torch.cuda.HalfTensor) and not isinstance(made, torch.cuda.FloatTensor)
    assert not isinstance(made.cpu(), torch.cuda.HalfTensor)


def test_a_cards_properties_are_those_that_occupancy_is_computed_with():
    """An H100's: 228 KiB of shared memory, of which a block may ask for 227."""
    with gpulab.cuda.use("virtual:H100", quiet=True):
        found = torch.cuda.get_device_properties(0)
    assert (found.max_threads_per_multi_processor, found.max_threads_per_block, found.warp_size) == (2048, 1024, 32)
    assert found.regs_per_multiprocessor == 65_536
    assert found.shared_memory_per_multiprocessor == 228 << 10
    assert (found.shared_memory_per_block, found.shared_memory_per_block_optin) == (48 << 10, 227 << 10)
