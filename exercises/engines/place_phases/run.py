"""E19.4 place_phases: what it answers to questions, whose fractions come as text, as its own go."""

from fractions import Fraction
from math import isfinite
from numbers import Rational, Real

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner

_HAIR = Fraction(1, 10**6)


def run(learner: Learner, case: dict) -> dict:
    """Ask every question; some again beside the break-even bandwidth that it tells, some again when all answers are emptied."""
    questions = case["questions"]
    if case["again"] == "emptied":
        return _emptied_and_asked_again(learner, questions)
    answers, beside = [], []
    for question in questions:
        answer = _ask(learner, question)
        answers.append(_plain(answer))
        links = _links(answer.get("returned")) if case["again"] == "beside" else []
        beside.append([_plain(_ask(learner, question, link)) for link in links])
    return {"rounds": [answers], "beside": beside}


def _emptied_and_asked_again(learner: Learner, questions: list[dict]) -> dict:
    kept = [_ask(learner, question) for question in questions]
    first = [_plain(answer) for answer in kept]
    for answer in kept:
        _emptied(answer.get("returned"))
    second = [_plain(_ask(learner, question)) for question in questions]
    return {"rounds": [first, second, [_plain(answer) for answer in kept]], "beside": [[] for _ in questions]}


def _ask(learner: Learner, question: dict, link: Fraction | None = None) -> dict:
    workload, cluster = (
        {name: Fraction(value) if isinstance(value, str) else value for name, value in question[part].items()}
        for part in ("workload", "cluster")
    )
    cluster |= {} if link is None else {"link_gbps": link}
    given = learner.Workload([learner.Kind(*kind) for kind in question["mix"]], **workload), learner.Cluster(**cluster)
    return outcome(lambda: learner.place_phases(*given))


def _links(value: object) -> list[Fraction]:
    """A hair above what is told and a hair below it; where nothing is told, as fast as no link is."""
    told = dict.get(value, "break_even_gbps") if isinstance(value, dict) else None
    number = isinstance(told, Rational) or isinstance(told, float) and isfinite(told)
    if told is None or not number or told <= 0:
        return [Fraction(10**60)]
    return [Fraction(told) * (1 + _HAIR), Fraction(told) * (1 - _HAIR)]


def _plain(value: object) -> object:
    """With texts for whole numbers and fractions, which may have more than 64 bits."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in dict.items(value)}
    if isinstance(value, Rational) and not isinstance(value, bool):
        return {"number": f"{int(value.numerator):x}/{int(value.denominator):x}"}
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else value


def _emptied(value: object) -> None:
    if isinstance(value, dict):
        for part in dict.values(value):
            _emptied(part)
        dict.clear(value)
