"""What E13.1's statement says of messages holds on real gloo too, and its own solution runs there."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from autograder.authoring.text import read_text_notebook
from gpulab.collectives import run_ranks
from tests.solved import solved

EXERCISES = Path(__file__).parents[2] / "exercises" / "collectives" / "notebook.py"
MANY = 1 << 20


@pytest.fixture(scope="module")
def given():
    """The notebook's `send` and `recv`, and the solution."""
    notebook = read_text_notebook(EXERCISES)
    helpers = next(
        cell.source for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "ranks"
    )
    names = {}
    exec(helpers.partition("def swap")[0], names)
    return names["send"], names["recv"], solved("collectives", "ring_all_reduce")


def overwritten(rank, world, send, recv):
    """How many elements arrive as they were sent, though the sender overwrites its tensor at once."""
    tensor = torch.ones(2 * MANY)[::2] if rank == 0 else torch.zeros(2 * MANY)[1::2]
    if rank:
        dist.barrier()
        recv(tensor, 0)
        return int(tensor.sum())
    handle = send(tensor, 1)
    tensor.zero_()
    dist.barrier()
    handle.wait()


@pytest.mark.parametrize("transport", ["broker", "gloo"])
def test_a_sent_tensor_may_be_overwritten_and_has_any_strides(given, transport):
    send, recv, _ = given
    run = run_ranks(overwritten, 2, args=(send, recv), card="off", backend="gloo", transport=transport)
    assert run.results[1] == MANY


def test_what_isend_is_given_may_not_be_overwritten_before_the_wait(given):
    run = run_ranks(overwritten, 2, args=(_isend, given[1]), card="off", backend="gloo", transport="gloo")
    assert run.results[1] < MANY


def _isend(tensor, to):
    contiguous = tensor.contiguous()
    handle = dist.isend(contiguous, to)
    contiguous.zero_()
    return handle


def summed(rank, world, send, recv, ring_all_reduce):
    base = torch.arange(2 * 10, dtype=torch.int64) * 10**rank
    ring_all_reduce(rank, world, base[1::2], send, recv)
    return base


@pytest.mark.parametrize("transport", ["broker", "gloo"])
def test_the_solution_sums_a_strided_buffer(given, transport):
    run = run_ranks(summed, 3, args=given, card="off", backend="gloo", transport=transport)
    for rank, base in enumerate(run.results):
        assert base[1::2].tolist() == [111 * number for number in range(1, 20, 2)]
        assert base[::2].tolist() == [10**rank * number for number in range(0, 20, 2)]
