"""What goes wrong in ranks reaches the learner as one error, soon, and leaves no process behind."""

import os

import pytest

from gpulab.collectives import RankError, run_ranks
from tests.collectives import faults
from tests.processes import children

AT_ONCE = 120.0
"""Seconds after which ranks that are not done are said to be late: a fault that is seen at once is never called that."""


def error_of(fault, world: int, timeout_s: float = AT_ONCE) -> RankError:
    with pytest.raises(RankError) as caught:
        run_ranks(fault, world, timeout_s=timeout_s)
    assert timeout_s != AT_ONCE or caught.value.problem.kind != "late"
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1200
    return caught.value


@pytest.fixture(autouse=True)
def _no_process_is_left():
    before = children()
    yield
    assert children() <= before


def test_both_receive_first(world):
    error = error_of(faults.both_receive_first, world)
    assert error.problem.kind == "deadlock" and error.problem.ranks == tuple(range(world))
    assert "rank 0 waits in recv from rank 1 at faults.py:" in str(
        error
    ) and "`dist.recv(ones(4), (rank + 1) % world)`" in str(error)
    assert "batch_isend_irecv" in str(error)


def test_a_ring_of_blocking_sends(world):
    error = error_of(faults.ring_of_blocking_sends, world)
    assert error.problem.kind == "deadlock" and error.problem.ranks == tuple(range(world))
    assert f"rank {world - 1} waits in send to rank 0 at faults.py:" in str(error)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            faults.other_collective,
            ["rank 0 asks for all_reduce SUM of 4 float32 at", "broadcast of 4 float32 with root 0 at"],
        ),
        (faults.other_size, ["all_reduce SUM of 4 float32", "rank 1 asks for all_reduce SUM of 5 float32"]),
        (faults.other_dtype, ["all_reduce SUM of 4 float32", "rank 1 asks for all_reduce SUM of 4 bfloat16"]),
        (faults.other_reduction, ["all_reduce SUM of 4", "rank 1 asks for all_reduce MAX of 4"]),
        (faults.other_root, ["with root 0", "with root 1"]),
        (faults.other_order, ["collective number 0", "rank 0 asks for all_reduce SUM of 8", "all_reduce SUM of 4"]),
    ],
)
def test_ranks_that_disagree(fault, said, world):
    error = error_of(fault, world)
    # Two that differ are enough to know: a rank that has not come by then is not named.
    assert (
        error.problem.kind == "disagreement"
        and len(error.problem.ranks) >= 2
        and {*error.problem.ranks} <= {*range(world)}
    )
    assert all(text in str(error) for text in said) and "Every rank of a group must call the same collectives" in str(
        error
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (faults.larger_message, ["send to rank 1 of 8 float32", "recv from rank 0 of 4 float32"]),
        (
            faults.too_little_room_in_a_gather,
            ["rank 0 gives 0 bytes to itself, which has room for 16: rank 0 asks for"],
        ),
    ],
)
def test_what_one_gives_and_another_has_no_room_for(fault, said, world):
    error = error_of(fault, world)
    assert error.problem.kind == "disagreement" and all(text in str(error) for text in said)


def test_a_rank_that_skips_a_collective(world):
    error = error_of(faults.skips, world)
    assert error.problem.kind == "deadlock" and "rank 0 had returned by then" in str(error)
    assert error.problem.ranks and {*error.problem.ranks} <= {*range(1, world)}  # those that have asked by then
    assert "`dist.all_reduce(ones(4))`" in str(error)


def test_a_group_that_not_all_ranks_make(world):
    error = error_of(faults.group_that_not_all_make, world)
    assert error.problem.kind in ("deadlock", "disagreement") and "rank 0" in str(error) and "faults.py:" in str(error)


def test_what_a_rank_raises(world):
    error = error_of(faults.raises, world)
    assert str(error).startswith("rank 1 raised ValueError at faults.py:") and str(error).endswith(
        ": the learner's own"
    )
    assert error.problem.exception == "ValueError" and "Traceback" in error.problem.traceback
    assert error.problem.lines[0].text == 'raise ValueError("the learner\'s own")'


def test_what_a_backward_pass_raises_has_its_line():
    assert "`x.register_hook(lambda g: g.undefined)`" in str(error_of(faults.raises_in_backward, 2))


def test_a_rank_that_is_killed(world):
    error = error_of(faults.killed, world)
    assert error.problem.kind == "died" and error.problem.ranks == (1,)
    assert (
        "rank 1 was killed by SIGKILL: the last that it asked for was all_reduce SUM of 4 float32 at faults.py:"
        in str(error)
    )
    assert len(error.journal) == 1


def test_a_rank_that_leaves(world):
    assert "rank 1 left with exit status 3 and did not return: it had asked for no collective" in str(
        error_of(faults.leaves, world)
    )


@pytest.mark.parametrize(
    ("fault", "line"), [(faults.loops, "while rank == 1:"), (faults.sleeps_in_c, "select.select([], [], [], 1000)")]
)
def test_a_rank_that_hangs(fault, line, world):
    said = []
    for timeout_s in (2.0, 8.0, 32.0):  # on a busy machine a rank comes to its line late
        error = error_of(fault, world, timeout_s)
        said.append(str(error))
        assert error.problem.kind == "late"
        if "rank 1 is at faults.py:" in said[-1] and f"`{line}`" in said[-1]:
            return
    pytest.fail("\n".join(said))


def test_what_cannot_travel_back_is_said():
    assert "CannotReturn" in str(error_of(faults.returns_what_cannot_travel, 2))


def test_a_child_that_a_rank_leaves_behind_is_ended():
    run_ranks(faults.leaves_a_child, 2)


def test_without_check_the_error_is_in_the_run():
    run = run_ranks(faults.killed, 2, check=False)
    assert run.error.problem.kind == "died" and run.results == [None, None] and len(run.journal) == 1
    assert "rank 1 was killed" in repr(run) and "all_reduce SUM" in repr(run)


def test_descriptors_are_given_back():
    before = len(os.listdir("/proc/self/fd"))
    for fault in (faults.killed, faults.raises, faults.both_receive_first):
        run_ranks(fault, 2, check=False)
    assert len(os.listdir("/proc/self/fd")) == before
