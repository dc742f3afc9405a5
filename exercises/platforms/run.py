"""Chapter "Platforms: serverless, tenancy, compliance": what the learner's functions answered, and what a pool decided."""

import pickle
from collections.abc import Callable
from numbers import Rational

from autograder.runner.library_calls import library_calls
from autograder.runner.outcome import outcome
from autograder.runner.plain import plain


def ask_all(function: Callable, asked: list[tuple]) -> dict:
    """The answers; ``called``: which libraries were called at the first question, since to watch takes time."""
    with library_calls("gpulab") as called:
        answers = [ask(function, *asked[0])]
    answers += [ask(function, *arguments) for arguments in asked[1:]]
    return {"answers": answers, "called": sorted(called)}


def ask(function: Callable, *arguments: object) -> dict:
    """What a call gave; ``kept``: whether the arguments were left as they were."""
    given = pickle.loads(pickle.dumps(arguments))
    return {**outcome(lambda: described(function(*given))), "kept": given == arguments}


def described(value: object) -> object:
    """As it crosses: a set as a dictionary with its members, a fraction as a float."""
    if isinstance(value, set | frozenset):
        return {"set": [described(member) for member in set(value)]}
    if isinstance(value, dict):
        return {key: described(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [described(part) for part in value]
    return float(value) if isinstance(value, Rational) and not isinstance(value, int) else plain(value)
