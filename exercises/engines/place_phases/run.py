"""E19.4 place_phases: what it answered, to questions whose fractions come as text, as its own do."""

from fractions import Fraction
from numbers import Rational, Real

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question, keep all that comes back, and read it at the end. Where the case says so, empty it and ask again."""
    rounds = []
    for _ in range(2 if case["twice"] else 1):
        asked = [_asked(learner, question) for question in case["questions"]]
        answers = [outcome(lambda given=given: learner.place_phases(*given)) for given in asked]
        stated = [_asked(learner, question) for question in case["questions"]]
        kept = [given == same for given, same in zip(asked, stated, strict=True)]
        rounds += [_plain(answer) | {"kept": unchanged} for answer, unchanged in zip(answers, kept, strict=True)]
        for answer in answers:
            _emptied(answer.get("returned"))
    return {"answers": rounds}


def _asked(learner: Learner, question: dict) -> tuple[object, object]:
    """The notebook's objects for a question's numbers."""
    workload, cluster = (
        {name: _number(value) for name, value in question[part].items()} for part in ("workload", "cluster")
    )
    return learner.Workload([learner.Kind(*kind) for kind in question["mix"]], **workload), learner.Cluster(**cluster)


def _number(value: int | str) -> int | Fraction:
    return Fraction(value) if isinstance(value, str) else value


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
