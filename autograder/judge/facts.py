"""What tells one wrong answer from another: facts that are equal where two functions answer alike."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from autograder.misconceptions.match import RIGHT
from autograder.protocol.plain import Other

_DIGITS = 9
"""Significant ones of a float: another order of the same operations gives the same fact."""


@dataclass(frozen=True)
class Fact:
    """Of one question. ``given``: what was answered; ``is_right``: whether that is accepted, which may take long to find out."""

    given: Hashable
    is_right: Callable[[], bool]

    @cached_property
    def seen(self) -> Hashable:
        """RIGHT, however it is written, or what was given."""
        return RIGHT if self.is_right() else self.given


def facts_of_questions(
    questions: list, answers: list[dict], raises: str, right: Callable[[Any, dict], bool]
) -> Iterator[Fact]:
    """``raises``: the exception that each of them should raise, or nothing. ``right(question, answer)``: whether a value is accepted.

    Of a question that is to be refused it counts whether it was, and not what else came.
    """
    for question, answer in zip(questions, answers, strict=True):
        if raises:
            given = _refusal(answer, raises)
            is_right = partial(bool, given == RIGHT)
        elif "error" in answer:
            given, is_right = ("raised", answer["error"]["type"]), bool
        else:
            given, is_right = frozen(answer["returned"]), partial(right, question, answer)
        yield Fact(given, is_right) if answer["kept"] else Fact(("changed", given), bool)


def _refusal(answer: dict, expected: str) -> str:
    if "error" not in answer:
        return "answered"
    return RIGHT if expected in answer["error"]["kinds"] else "another exception"


def frozen(value: Any) -> Hashable:
    """Plain data as a key: 3 is neither 3.0 nor True, and a list in another order is another."""
    if isinstance(value, dict):
        return ("dict", *sorted((str(key), frozen(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *map(frozen, value))
    if isinstance(value, set | frozenset):
        return ("set", *sorted(map(repr, map(frozen, value))))
    if isinstance(value, Other):
        return ("of", value.type_name)
    if isinstance(value, float):
        return ("float", f"{value:.{_DIGITS}g}")
    return (type(value).__name__, repr(value))
