"""What the chapter's judges ask of evidence before they look at an answer."""

from collections.abc import Callable, Iterator

from autograder.core.exercise import Case, Failure
from autograder.judge.expect import count_problem
from autograder.judge.questions import Wrong, judge_questions


def judge_own_work(wrong: Wrong, given: str) -> Callable[[Case, dict], Iterator[Failure]]:
    """A judge that loses a case's one criterion at the first wrong answer, at a call of gpulab, and where ``given``, in words, was changed."""
    judge = judge_questions(wrong)

    def with_own_work(case: Case, evidence: dict) -> Iterator[Failure]:
        (criteria,) = case.criteria
        if problem := count_problem(evidence["answers"], len(case.inputs["questions"])):
            yield Failure(criteria, problem)
        elif evidence["called"]:
            yield Failure(criteria, f"The function calls {evidence['called'][0]:.30}: it is to do the work by itself.")
        elif any(answer["kept"] is not True for answer in evidence["answers"]):
            yield Failure(criteria, f"The function changed {given} that it was given: the caller still needs them.")
        else:
            yield from judge(case, evidence)

    return with_own_work
