"""What tells one wrong answer from another: facts that are equal where two functions answer alike."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from autograder.misconceptions.match import RIGHT
from autograder.protocol.plain import Other
from autograder.protocol.wire import Opaque

MOST_BYTES = 16 << 20
"""Of evidence that is kept for them: a learner's function may give lists without end."""
_DIGITS = 9
"""Significant ones of a float: another order of the same operations gives the same fact."""
_DIGITS_OF_TENSORS = 3
"""Of the numbers that stand for a tensor: sums of float32 in another order differ in the seventh, and some lie at a boundary."""
_ELEMENTS = 8
"""That are looked at one by one."""


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
    """What came back as a key: 3 is neither 3.0 nor True, and a list in another order is another.

    Of an exception its type alone, for its message is the writer's own.
    """
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if isinstance(value, dict) and {"type", "kinds"} <= value.keys():
        return ("raised", value["type"])
    if isinstance(value, dict):
        return ("dict", *sorted((str(key), frozen(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *map(frozen, value))
    if isinstance(value, set | frozenset):
        return ("set", *sorted(map(repr, map(frozen, value))))
    if isinstance(value, Other | Opaque):
        return ("of", value.type_name)
    if isinstance(value, float):
        return ("float", f"{value:.{_DIGITS}g}")
    return (type(value).__name__, repr(value))


def _of_tensor(tensor: torch.Tensor) -> Hashable:
    """Dtype, shape, and a few numbers that stand for its elements: how large they are, where the large ones lie, some of them."""
    head = ("tensor", str(tensor.dtype), tuple(tensor.shape))
    if tensor.is_meta or not tensor.numel():
        return head
    flat = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).flatten().double()
    size = torch.where(flat.isfinite(), flat, 0).abs()
    some = flat[torch.linspace(0, len(flat) - 1, _ELEMENTS).long()]
    numbers = [size.sum().item(), (size * torch.linspace(1, 2, len(flat))).sum().item(), *some.tolist()]
    return (*head, int(flat.isfinite().sum()), *(f"{number:.{_DIGITS_OF_TENSORS}g}" for number in numbers))
