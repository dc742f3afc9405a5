"""What a rank launched between markers, and what it handed in."""

import torch

from autograder.judge.collective_broker import CollectiveRecord
from autograder.judge.ranks import Launch, handed_in, spans
from gpulab.collectives.journal import Entry


def launch(operation: str, at: int, given: torch.Tensor, ranks: tuple[int, ...] = (0, 1)) -> Launch:
    data, dtype = given.numpy().tobytes(), str(given.dtype).removeprefix("torch.")
    entry = Entry(at, operation, len(data), dtype, "SUM", "0", ranks, (), (), 0.0, 0.0, ())
    return Launch(CollectiveRecord(entry, (data,) * len(ranks)), at, data)


def mark(number: int, at: int) -> Launch:
    return launch("reduce", at, torch.tensor([number]), ranks=(0,))


def test_a_marker_of_minus_one_ends_a_span():
    one, two, three = (launch("all_reduce", at, torch.ones(2)) for at in (1, 3, 5))
    found = spans([one, mark(-1, 2), two, mark(-1, 4), three])
    assert [span.launches for span in found] == [[one], [two], [three]]


def test_after_the_last_marker_there_is_a_span_of_nothing():
    assert [span.launches for span in spans([mark(-1, 1)])] == [[], []]


def test_another_number_is_kept_with_the_place_at_which_it_was_given_last():
    (span,) = spans([mark(3, 1), mark(4, 2), mark(3, 7)])
    assert span.marks == {3: 7, 4: 2}


def test_what_all_ranks_reduce_is_no_marker():
    (span,) = spans([launch("reduce", 1, torch.tensor([-1]))])
    assert len(span.launches) == 1


def test_what_was_handed_in_is_flat_and_of_the_entrys_dtype():
    given = torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)
    found = handed_in(given.view(torch.uint8).numpy().tobytes(), "bfloat16")
    assert found.dtype == torch.bfloat16 and found.tolist() == [1.5, -2.0]


def test_nothing_handed_in_is_an_empty_tensor():
    assert handed_in(b"", "float64").shape == (0,)
