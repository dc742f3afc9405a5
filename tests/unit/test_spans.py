"""What a rank launched between markers, what it handed in, and why it stopped."""

import torch

from autograder.judge.collective_broker import CollectiveRecord, Traffic
from autograder.judge.ranks import Launch, handed_in, spans, stopped
from gpulab.collectives.errors import Problem
from gpulab.collectives.journal import Entry


def launch(operation: str, at: int, given: torch.Tensor, ranks: tuple[int, ...] = (0, 1)) -> Launch:
    data, dtype = given.numpy().tobytes(), str(given.dtype).removeprefix("torch.")
    entry = Entry(at, operation, len(data), dtype, "SUM", "0", ranks, (), (), 0.0, 0.0, ())
    return Launch(CollectiveRecord(entry, (data,) * len(ranks)), at, data)


def mark(number: int, at: int, *measured: int) -> Launch:
    return launch("reduce", at, torch.tensor([number, *measured]), ranks=(0,))


def test_a_marker_of_minus_one_ends_a_span():
    one, two, three = (launch("all_reduce", at, torch.ones(2)) for at in (1, 3, 5))
    found = spans([one, mark(-1, 2), two, mark(-1, 4), three])
    assert [span.launches for span in found] == [[one], [two], [three]]


def test_after_the_last_marker_there_is_a_span_of_nothing():
    assert [span.launches for span in spans([mark(-1, 1)])] == [[], []]


def test_another_number_is_kept_with_the_place_at_which_it_was_given_last():
    (span,) = spans([mark(3, 1), mark(4, 2), mark(3, 7)])
    assert span.marks == {3: 7, 4: 2}


def test_a_marker_says_what_was_measured_when_it_was_given():
    span, _ = spans([mark(3, 1, 512), mark(3, 5, 1024), mark(-1, 6, 0)], measured=1)
    assert [(told.number, told.measured, told.at) for told in span.told] == [
        (3, (512,), 1),
        (3, (1024,), 5),
        (-1, (0,), 6),
    ]
    assert span.marks == {3: 5}


def test_a_marker_with_other_measures_than_expected_is_a_launch():
    (span,) = spans([mark(3, 1, 512)])
    assert len(span.launches) == 1 and not span.told


def test_what_all_ranks_reduce_is_no_marker():
    (span,) = spans([launch("reduce", 1, torch.tensor([-1]))])
    assert len(span.launches) == 1


def test_what_was_handed_in_is_flat_and_of_the_entrys_dtype():
    given = torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)
    found = handed_in(given.view(torch.uint8).numpy().tobytes(), "bfloat16")
    assert found.dtype == torch.bfloat16 and found.tolist() == [1.5, -2.0]


def test_nothing_handed_in_is_an_empty_tensor():
    assert handed_in(b"", "float64").shape == (0,)


def why(text: str) -> str | None:
    return stopped({"traffic": Traffic(problem=Problem("died", text, (1,), (None,)))})


def test_of_a_rank_that_died_behind_a_marker_nothing_is_said_of_the_marker():
    marked = "the last that it asked for was reduce SUM of 2 int64 with root 1 at the cell `model(x)`."
    assert (
        why(f"rank 1 left with exit status 1 and did not return: {marked}")
        == "Rank 1 left with exit status 1 and did not return."
    )


def test_what_a_rank_that_died_asked_for_itself_is_said():
    text = (
        "rank 1 left with exit status 1 and did not return: the last that it asked for was all_reduce SUM of 2 float32."
    )
    assert why(text) == f"R{text[1:]}"


def test_a_rank_that_reads_freed_memory_hears_of_it_before_it_hears_of_a_signal():
    said = why("rank 0 was killed by SIGSEGV: it had asked for no collective.")
    assert said.startswith("Something was read whose storage holds nothing: Rank 0 was killed by SIGSEGV")
