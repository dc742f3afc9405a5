"""The judge of exercises whose cases are lists of questions, each with one right answer."""

from collections.abc import Callable, Iterator

from autograder.exercise import Case, Lost
from autograder.verdicts.expect import error_problem

Wrong = Callable[[str, dict, dict], str | None]


def judge_questions(wrong: Wrong) -> Callable[[Case, dict], Iterator[Lost]]:
    """A judge that loses a case's one criterion at the first wrong answer.

    ``wrong(criterion, question, answer)`` gives the sentence, or None for a right answer. Where the
    case is ``refused``, every answer has to be a ValueError.
    """

    def judge(case: Case, evidence: dict) -> Iterator[Lost]:
        (about,) = case.about
        for question, answer in zip(case.inputs["questions"], evidence["answers"], strict=True):
            problem = error_problem(answer, "ValueError") if case.inputs["refused"] else wrong(about, question, answer)
            if problem:
                yield Lost(about, problem)
                return

    return judge
