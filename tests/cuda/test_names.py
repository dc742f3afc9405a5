"""Every public name of torch.cuda, torch.accelerator and torch.distributed works on the virtual card or is refused by its name."""

import pytest
import torch
import torch.distributed as dist

from gpulab.collectives import run_ranks
from gpulab.names import ACCELERATOR, CUDA, DISTRIBUTED, REFUSED, WORKS, in_ranks, outcome

EITHER = {WORKS, REFUSED}


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("names", (CUDA, ACCELERATOR), ids=lambda names: names.module)
def test_each_works_or_says_by_name_that_it_does_not(names):
    assert {outcome(call) for call in names.calls.values()} == EITHER


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
