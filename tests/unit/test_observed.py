"""Facts of cases that a ``run.py`` played: equal where two functions did the same and were judged alike."""

import pytest
import torch

from autograder.core.exercise import Failure, NotGradable
from autograder.judge import observed
from autograder.judge.expect import raised_problem
from autograder.judge.observed import Observed, number_of
from autograder.judge.session import CaseResult
from autograder.protocol import wire


def lost(message: str = "A byte was copied.", criterion: str = "no_copy") -> CaseResult:
    return CaseResult([Failure(criterion, message)])


EARNED = CaseResult()


def facts(*cases: tuple[dict, CaseResult]) -> dict[str, list[str]]:
    kept = Observed()
    for evidence, result in cases:
        kept.add(wire.encode(evidence), result)
    return kept.facts


def test_two_who_gave_the_same_have_the_same_facts():
    mine, its = (
        ({"returned": torch.ones(3, 4), "count": 2}, lost()),
        ({"count": 2, "returned": torch.ones(3, 4)}, lost()),
    )
    assert facts(mine) == facts(its) != {}


@pytest.mark.parametrize(
    "other",
    [
        {"returned": torch.ones(3, 4), "count": 3},
        {"returned": torch.ones(4, 3), "count": 2},
        {"returned": torch.ones(3, 4, dtype=torch.float64), "count": 2},
        {"returned": torch.ones(3, 4) * 1.01, "count": 2},
        {"returned": 2 * torch.eye(3, 4), "count": 2},
        {"count": 2},
    ],
)
def test_who_gave_something_else_has_others(other):
    assert facts(({"returned": torch.ones(3, 4), "count": 2}, lost())) != facts((other, lost()))


def test_who_was_told_something_else_has_others():
    assert facts(({}, lost("2 copies; expected 1"))) != facts(({}, lost("3 copies; expected 1")))


def test_the_order_of_a_tensors_elements_counts():
    rising, falling = torch.arange(100.0), torch.arange(100.0).flip(0)
    assert facts(({"returned": rising}, lost())) != facts(({"returned": falling}, lost()))


def test_sums_of_float32_in_another_order_are_the_same_fact():
    one, other = torch.full((999,), 0.1).sum(), torch.zeros(())
    for _ in range(999):
        other = other + 0.1
    assert one != other and facts(({"returned": one}, lost())) == facts(({"returned": other}, lost()))


@pytest.mark.parametrize(
    "tensor", [torch.zeros(0, 3), torch.tensor([1j, 2]), torch.tensor([True]), torch.tensor(torch.nan)]
)
def test_tensors_of_every_kind_are_facts(tensor):
    assert facts(({"returned": tensor}, lost())) == facts(({"returned": tensor.clone()}, lost())) != {}


def test_where_things_lay_when_they_came_and_every_operation_that_ran_are_no_facts():
    one, other = (
        {"returned": 1, "seen": {"ops": [n]}, "result_addresses": [n], "returned_us": n, "stream": n} for n in (1, 2)
    )
    assert facts((one, lost())) == facts((other, lost()))


def test_of_an_exception_its_type_alone_is_a_fact():
    one, other = (f"The function raised KeyError at `{line}`: {line}" for line in ("a[0]", "b[1]"))
    assert (
        facts(({}, lost(one)))
        == facts(({}, lost(other)))
        != facts(({}, lost("The function raised IndexError at `a[0]`")))
    )


def stopped(line: str, message: str, kind: str = "RuntimeError") -> dict[str, list[str]]:
    """Facts of a case that ended so."""
    error = {"type": kind, "kinds": [kind, "Exception"], "message": message, "line": line}
    kept = Observed()
    kept.add(wire.encode({"raised": error}), lost(raised_problem(error)), stopped=True)
    return kept.facts


def test_of_an_exception_that_ended_a_case_what_a_library_says_is_a_fact_and_the_line_is_none():
    one, same = stopped("x.view(-1, 3)", "size mismatch"), stopped("rows = x.view(n, 3)", "size mismatch")
    assert one == same != stopped("x.view(-1, 3)", "no such dimension")


@pytest.mark.parametrize("how", ["raise ValueError", "assert n > 1,"])
def test_what_a_function_says_where_it_raises_itself_is_no_fact(how):
    one, same = stopped(f"{how}(a)", "no rows", "ValueError"), stopped(f"{how}('b')", "rows are missing", "ValueError")
    assert one == same != stopped(f"{how}(a)", "no rows", "TypeError")


def test_only_cases_that_were_lost_have_facts_each_with_its_number():
    found = facts(({}, EARNED), ({}, lost()), ({}, EARNED), ({}, lost()))
    assert [number_of(fact) for fact in found["no_copy"]] == [2, 4]


def test_numbers_are_those_of_the_draw_also_where_cases_are_played_in_another_order():
    kept = Observed([7, 3])
    for _ in range(2):
        kept.add(wire.encode({}), lost())
    assert [number_of(fact) for fact in kept.facts["no_copy"]] == [7, 3] and kept.over == {3, 7}


@pytest.mark.parametrize(
    "result",
    [
        CaseResult([Failure("a", "b")], incidents=["an observation that contradicts itself"]),
        CaseResult(not_gradable=[NotGradable("speed", "no GPU")]),
        CaseResult([Failure("a", "b")], broken=["the judge failed"]),
    ],
    ids=["tampered", "not gradable", "broken"],
)
def test_nothing_is_certain_where_a_case_was_not_judged(result):
    kept = Observed()
    kept.add(wire.encode({}), lost())
    kept.add(b"", result)
    assert not kept.whole


def test_evidence_beyond_a_bound_is_not_kept(monkeypatch):
    monkeypatch.setattr(observed, "MOST_BYTES", 1000)
    kept = Observed()
    kept.add(wire.encode({"returned": list(range(1000))}), EARNED)
    assert kept.whole
    kept.add(wire.encode({"returned": list(range(1000))}), lost())
    assert not kept.whole and not kept.facts
