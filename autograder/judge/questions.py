"""Exercises that are questions to one pure function, each with one right answer."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from reprlib import Repr
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.contrast import Traits, how_many_right
from autograder.judge.expect import count_problem, error_problem, raised_problem
from autograder.judge.facts import Fact, facts_of_questions
from autograder.judge.refusals import kept_and_broken
from autograder.protocol.plain import read, value_of, written

Question = Any
_short = Repr()
_short.maxlevel, _short.maxlist, _short.maxdict, _short.maxstring, _short.maxother = 3, 8, 8, 60, 120
Wrong = Callable[[str, Question, Any], str | None]


@dataclass(frozen=True)
class Questions(Case):
    """``questions`` stay in the referee; the kernel gets the arguments that are made of them.

    ``reasons``: of each question why it is refused, where the case ``raises`` and says so.
    """

    questions: list = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def ask(criteria: str, questions: list, raises: str = "") -> Questions:
    """A case of questions that one criterion is about; ``raises``: what each of them should raise."""
    return Questions((criteria,), {"questions": questions}, raises, questions=questions)


def refuse(criteria: str, reasoned: Iterable[tuple[Question, str]], raises: str = "ValueError") -> Questions:
    """A case of questions that are each refused, with what is wrong with its arguments: "stage 4 is none of the four"."""
    questions, reasons = map(list, zip(*reasoned, strict=True))
    return replace(ask(criteria, questions, raises), reasons=reasons)


def answers(
    criteria: tuple[Criterion, ...],
    cases: Callable[[Sampler], Iterator[Questions]],
    arguments: Callable[[Question], tuple],
    wrong: Wrong,
    kept: str = "The function changed an argument that it was given.",
    libraries: tuple[str, ...] = (),
    in_kernel: bool = False,
    traits: Callable[[Question], Traits] | None = None,
) -> Exercise:
    """An exercise without a ``run.py``: its function is called with the ``arguments`` of each question, and answers.

    ``wrong(criterion, question, value)`` gives the sentence, or None for a right value (tuples come as lists). ``kept``:
    the sentence where an argument is another after the call. The function runs in an interpreter that has Python's own
    modules and ``libraries``, or ``in_kernel``, where it may use what the notebook has. ``traits``: of a question, in a learner's
    words, what may decide whether it is answered rightly.
    """

    def asked(sampler: Sampler) -> Iterator[Questions]:
        for case in cases(sampler):
            calls = written([arguments(question) for question in case.questions])
            yield replace(case, inputs={"calls": calls, "libraries": list(libraries), "in_kernel": in_kernel})

    return Exercise(criteria, asked, _judge(lambda case: case.questions, wrong, value_of, kept, traits), _facts(wrong))


def _facts(wrong: Wrong) -> Callable[[Questions, dict], Iterator[Fact]]:
    def facts(case: Questions, evidence: dict) -> Iterator[Fact]:
        right = lambda question, answer: not wrong(case.criteria[0], question, value_of(answer["returned"]))
        return facts_of_questions(case.questions, evidence["answers"], case.raises, right)

    return facts


def _called_with(case: Case, at: int) -> str:
    """The arguments of one call, cut short; nothing where a ``run.py`` makes them."""
    if "calls" not in case.inputs:
        return ""
    return f" (called with `{_short.repr(read(case.inputs['calls'])[at])}`)"


def _of_the_others(case: Questions, given: list[dict]) -> str:
    refused = [not error_problem(answer, case.raises) for answer in given]
    return kept_and_broken(zip(case.reasons, refused, strict=True), case.raises)


def _how_many_right(
    lost: Callable[[tuple], Any], rows: list[tuple], traits: Callable[[Question], Traits] | None
) -> str:
    """Of all that is asked for one criterion; nothing where a judge cannot take an answer."""
    try:
        right = [not lost(row) for row in rows]
    except Exception:
        return ""
    return how_many_right(right, [traits(question) for _, question, *_ in rows] if traits else ())


def judge_questions(
    wrong: Wrong, traits: Callable[[Question], Traits] | None = None
) -> Callable[[Case, dict], Iterator[Failure]]:
    """A judge that loses a case's one criterion at the first wrong answer, for exercises with a ``run.py``.

    ``wrong`` and ``traits`` are as in :func:`answers`. Where the case ``raises``, every answer has to.
    """
    return _judge(lambda case: case.inputs["questions"], wrong, lambda value: value, traits=traits)


def _judge(
    of: Callable[[Case], list],
    wrong: Wrong,
    read: Callable[[Any], Any],
    kept: str = "",
    traits: Callable[[Question], Traits] | None = None,
) -> Callable[[Case, dict], Iterator[Failure]]:
    def found_in(case: Case, at: int, question: Question, answer: dict, because: str) -> str | None:
        if case.raises:
            return error_problem(answer, case.raises, because)
        if "error" in answer:
            return raised_problem(answer["error"]) + _called_with(case, at)
        return wrong(case.criteria[0], question, read(answer["returned"]))

    def judge(case: Case, evidence: dict) -> Iterator[Failure]:
        questions, given = of(case), evidence.get("answers")
        if problem := count_problem(given, len(questions)):
            yield Failure(case.criteria[0], problem)
            return
        stated = getattr(case, "reasons", ())
        reasons = stated or [case.because] * len(questions)
        rows = list(zip(range(len(questions)), questions, given, reasons, strict=True))
        lost = lambda row: found_in(case, *row) or (kept and not row[2]["kept"] and kept)
        if first := next(filter(None, map(lost, rows)), None):
            of_a_refusal = _of_the_others(case, given) if stated and first != kept else ""
            further = of_a_refusal if case.raises else _how_many_right(lost, rows, traits)
            ended = first if first.endswith((".", "?")) else f"{first}."
            yield Failure(case.criteria[0], f"{ended} {further}" if further else first)

    return judge
