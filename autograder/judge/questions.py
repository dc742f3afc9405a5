"""The judge of exercises whose cases are lists of questions, each with one right answer."""

from collections.abc import Callable, Iterator
from typing import Any

from autograder.core.exercise import Case, Failure
from autograder.judge.expect import error_problem, raised_problem

Wrong = Callable[[str, dict, Any], str | None]


def ask(criteria: str, questions: list[dict], raises: str = "") -> Case:
    """A case of questions that one criterion is about; ``raises``: what each of them should raise."""
    return Case((criteria,), {"questions": questions}, raises)


def judge_questions(wrong: Wrong) -> Callable[[Case, dict], Iterator[Failure]]:
    """A judge that loses a case's one criterion at the first wrong answer.

    ``wrong(criterion, question, value)`` gives the sentence, or None for a right value. Where the
    case ``raises``, every answer has to.
    """

    def judge(case: Case, evidence: dict) -> Iterator[Failure]:
        (criteria,) = case.criteria
        for question, answer in zip(case.inputs["questions"], evidence["answers"], strict=True):
            if problem := _problem(case, question, answer, wrong):
                yield Failure(criteria, problem)
                return

    return judge


def _problem(case: Case, question: dict, answer: dict, wrong: Wrong) -> str | None:
    if case.raises:
        return error_problem(answer, case.raises)
    if "error" in answer:
        return raised_problem(answer["error"])
    return wrong(case.criteria[0], question, answer["returned"])
