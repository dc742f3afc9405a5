"""What three judges of this chapter ask of a list of answers before they look at a value."""

from collections.abc import Callable, Iterator
from typing import Any

from autograder.core.exercise import Case, Failure
from autograder.judge.expect import count_problem, error_problem, raised_problem

Wrong = Callable[[str, Any, Any], str | None]


def judged(wrong: Wrong, given: str) -> Callable[[Case, dict], Iterator[Failure]]:
    """A judge of questions, each with one criterion. ``wrong(criterion, question, value)``: the sentence, or None.

    ``given``: what the function was handed, for the sentence about one that changed it.
    """

    def judge(case: Case, evidence: dict) -> Iterator[Failure]:
        (criteria,), questions = case.criteria, case.inputs["questions"]
        if problem := count_problem(evidence["answers"], len(questions)):
            yield Failure(criteria, problem)
        elif evidence["called"]:
            yield Failure(criteria, "The function calls gpulab; expected plain Python.")
        else:
            pairs = zip(questions, evidence["answers"], strict=True)
            problems = (_problem(case, question, answer, wrong, given) for question, answer in pairs)
            if problem := next(filter(None, problems), None):
                yield Failure(criteria, problem)

    return judge


def _problem(case: Case, question: Any, answer: dict, wrong: Wrong, given: str) -> str | None:
    if case.raises:
        return error_problem(answer, case.raises)
    if "error" in answer:
        return raised_problem(answer["error"])
    if answer.get("kept") is not True:
        return f"The function changed {given}."
    return wrong(case.criteria[0], question, answer["returned"])
