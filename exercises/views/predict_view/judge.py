"""E1.1 predict_view: judge. The reference is ``Tensor.view`` itself."""

from typing import Any

from autograder.core.exercise import Criterion
from autograder.judge.expect import type_name
from autograder.judge.questions import answers
from exercises.views.predict_view.asked_of_torch import is_contiguous, strided, view_stride
from exercises.views.predict_view.cases import Question, predict_view_cases

_HINTS = {
    "merges": "Contiguous is not the condition: only dimensions that are merged must follow each other evenly.",
    "ones": "A dimension of size 1 is never stepped along: its stride decides nothing.",
    "expanded": "Dimensions of stride 0 merge with each other, and with no other.",
    "inferred": "A contiguous tensor is viewed under any size of its elements: first replace -1 by what makes the numbers agree.",
    "empty": "A tensor of no elements can be viewed under any size of no elements.",
}


def _wrong(criteria: str, question: Question, answer: Any) -> str | None:
    size, stride, new_size = question
    expected = view_stride(size, stride, new_size)
    if answer is None and expected is not None:
        return f"None for a tensor that can be viewed. {_HINTS[criteria]}"
    if answer is None:
        return None
    if not isinstance(answer, list) or not all(type(step) is int for step in answer):
        return f"The function returned {_kind(answer)}; expected a tuple or a list of integers, or None."
    if expected is None:
        return f"Strides were predicted where only a copy will do. {_HINTS[criteria]}"
    if len(answer) != len(expected):
        return "The result does not have one stride for each dimension of new_size."
    return (
        None
        if _reach_the_same(answer, expected, size, new_size)
        else f"A predicted stride is wrong. {_HINTS[criteria]}"
    )


def _traits(size: list[int], stride: list[int], new_size: list[int]) -> dict[str, str]:
    there = {True: "there", False: "not there"}
    return {
        "a view": "possible" if view_stride(size, stride, new_size) is not None else "not possible",
        "the tensor": "contiguous" if is_contiguous(size, stride) else "not contiguous",
        "a size of 1": there[1 in (*size, *new_size)],
        "a stride of 0": there[0 in stride],
        "a size of 0": there[0 in size],
        "a size of -1": there[-1 in new_size],
        "the number of dimensions of the result": "larger" if len(new_size) > len(size) else "the same or smaller",
    }


def _kind(answer: Any) -> str:
    odd = next((step for step in answer if type(step) is not int), None) if isinstance(answer, list) else None
    return type_name(answer) if odd is None else f"a tuple with {type_name(odd)} in it"


def _reach_the_same(stride: list[int], expected: list[int], size: list[int], new_size: list[int]) -> bool:
    """Equal wherever a stride is used: not along a size of 1, not in a tensor of no elements."""
    if 0 in size:
        return True
    shape = strided(size, [1] * len(size)).reshape(new_size).shape
    return all(n == 1 or mine == right for n, mine, right in zip(shape, stride, expected))


exercise = answers(
    criteria=(
        Criterion("merges", 3, "the strides are those of Tensor.view, and None is returned where a copy is needed"),
        Criterion("ones", 1, "dimensions of size 1 are ignored, whatever their stride", ("merges",)),
        Criterion("expanded", 1, "dimensions of stride 0 are merged only with each other", ("merges",)),
        Criterion("inferred", 1, "-1 is replaced by the size that fits"),
        Criterion("empty", 1, "empty tensors are viewed, and an ambiguous -1 is refused"),
        Criterion("errors", 1, "an invalid new_size is refused with ValueError", ("empty",)),
    ),
    cases=predict_view_cases,
    arguments=lambda question: tuple(map(tuple, question)),
    wrong=_wrong,
    traits=lambda question: _traits(*question),
)
