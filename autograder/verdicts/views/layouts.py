"""E1.1 predict_view: cases and judge. The reference is ``Tensor.view`` itself."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import type_name
from autograder.verdicts.questions import judge_questions

Layout = list[tuple[int, int]]
"""(size, stride) of each dimension."""

QUESTIONS = 16


def _predict_view_cases(draw: Draw) -> Iterator[Case]:
    for about, layout in (("merges", _layout), ("ones", _with_ones), ("expanded", _with_repeats)):
        asked = [_question(draw, layout, viewable=bool(i % 2)) for i in range(QUESTIONS)]
        yield _case(about, asked)
    yield _case("expanded", [_repeats_merged(draw)])
    asked = [_question(draw, _layout, viewable=bool(i % 2)) for i in range(QUESTIONS)]
    yield _case("inferred", [_one_left_open(draw, *question) for question in asked])
    yield _case("empty", _questions_of_no_elements(draw))
    yield _case("empty", _ambiguous(draw), refused=True)
    yield _case("errors", _misfits(draw), refused=True)


def _case(about: str, asked: list[tuple], refused: bool = False) -> Case:
    questions = [{"size": size, "stride": stride, "new_size": new} for size, stride, new in asked]
    return Case((about,), {"questions": questions, "refused": refused})


def _layout(draw: Draw) -> Layout:
    """Dimensions larger than 1, some with the gaps that a crop leaves, some permuted."""
    size = [draw.choice((2, 3, 4, 6)) for _ in range(draw.integer(2, 4))]
    layout, stride = [], draw.choice((1, 1, 2))
    for n in reversed(size):
        layout.insert(0, (n, stride))
        stride = stride * n + draw.choice((0, 0, 1, 5))
    return draw.shuffled(layout) if draw.chance(0.5) else layout


def _with_ones(draw: Draw) -> Layout:
    """A layout with dimensions of size 1 between the others, of any stride."""
    layout = _layout(draw)
    for _ in range(draw.integer(1, 2)):
        layout.insert(draw.integer(0, len(layout)), (1, draw.integer(0, 50)))
    return layout


def _with_repeats(draw: Draw) -> Layout:
    layout = _layout(draw)
    place = draw.integer(0, len(layout))
    layout[place:place] = [(draw.choice((2, 3, 4)), 0) for _ in range(draw.integer(1, 2))]
    return layout


def _repeats_merged(draw: Draw) -> tuple:
    """Two dimensions of stride 0 become one: it has stride 0 too."""
    a, b, c = (draw.integer(2, 5) for _ in range(3))
    return [a, b, c], [0, 0, draw.integer(1, 3)], [a * b, c]


def _question(draw: Draw, kind: Callable[[Draw], Layout], viewable: bool) -> tuple:
    """(size, stride, new_size) of a tensor that is not contiguous and can, or cannot, be viewed."""
    while True:
        layout = kind(draw)
        size, stride = [n for n, _ in layout], [s for _, s in layout]
        new_size = _regrouped(draw, size)
        found = _view_stride(size, stride, new_size)
        if size != new_size and (found is not None) == viewable and not _is_contiguous(size, stride):
            return size, stride, new_size


def _regrouped(draw: Draw, size: list[int]) -> list[int]:
    """The same elements in other dimensions: some split, some merged; ones where size has ones."""
    new_size: list[int] = []
    for factor in (factor for n in size for factor in _factors(draw, n)):
        if new_size and draw.chance(0.5):
            new_size[-1] *= factor
        else:
            new_size.append(factor)
    for _ in range(draw.integer(0, 2) if 1 in size else 0):
        new_size.insert(draw.integer(0, len(new_size)), 1)
    return new_size


def _factors(draw: Draw, n: int) -> list[int]:
    return {1: [], 2: [2], 3: [3], 4: [2, 2], 6: draw.shuffled((2, 3))}[n]


def _one_left_open(draw: Draw, size: list, stride: list, new_size: list) -> tuple:
    open_at = draw.integer(0, len(new_size) - 1)
    return size, stride, [*new_size[:open_at], -1, *new_size[open_at + 1 :]]


def _questions_of_no_elements(draw: Draw) -> list[tuple]:
    a, b, c = (draw.integer(2, 9) for _ in range(3))
    stride = [draw.integer(1, 99) for _ in range(3)]
    return [
        ([0, a, b], stride, [0, c]),
        ([a, 0, b], stride, [c, a, 0]),
        ([a, b, 0], stride, [-1, c]),
        ([a, b, 0], stride, [a, -1, b]),
        ([0], stride[:1], [0]),
    ]


def _ambiguous(draw: Draw) -> list[tuple]:
    a, b, c = (draw.integer(2, 9) for _ in range(3))
    return [([0, a], [b, 1], [0, -1]), ([a, 0], [1, 1], [-1, c, 0]), ([a, b], [b, 1], [0, -1]), ([0, a], [a, 1], [b, c])]


def _misfits(draw: Draw) -> list[tuple]:
    a, b = draw.integer(2, 5), draw.integer(6, 9)
    size, stride = [a, b], draw.choice(([b, 1], [1, a]))
    wrong = ([a, b + 1], [a * b * 2], [-1, -1], [-1, a * b + 1], [-a, -b], [-2, a * b], [])
    return [(size, stride, new_size) for new_size in wrong]


def _meta(size: list[int], stride: list[int]) -> torch.Tensor:
    return torch.empty_strided(size, stride, device="meta")


def _is_contiguous(size: list[int], stride: list[int]) -> bool:
    return _meta(size, stride).is_contiguous()


def _view_stride(size: list[int], stride: list[int], new_size: list[int]) -> list[int] | None:
    try:
        return list(_meta(size, stride).view(new_size).stride())
    except RuntimeError:
        return None


def _judge_predict_view(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    if evidence["seen"]["ops"] or evidence["called"]:
        yield Lost(about, "PyTorch or NumPy was called inside the function: predict from the numbers alone.")
        return
    yield from judge_questions(_wrong)(case, evidence)


_HINTS = {
    "merges": "Contiguous is not the condition: only dimensions that are merged must follow each other evenly.",
    "ones": "A dimension of size 1 is never stepped along: its stride decides nothing.",
    "expanded": "A stride of 0 is a stride like any other: n steps of 0 lead to 0, and nowhere else.",
    "inferred": "First replace -1 by the size that makes the numbers of elements agree.",
    "empty": "A tensor of no elements can be viewed under any size of no elements.",
}


def _wrong(about: str, question: dict, answer: Any) -> str | None:
    size, stride, new_size = question["size"], question["stride"], question["new_size"]
    due = _view_stride(size, stride, new_size)
    if answer is None and due is not None:
        return f"None for a tensor that can be viewed. {_HINTS[about]}"
    if answer is None:
        return None
    if not isinstance(answer, list) or not all(type(step) is int for step in answer):
        return f"The function returned {_kind(answer)}; a tuple of integers or None is due."
    if due is None:
        return f"Strides were predicted where only a copy will do. {_HINTS[about]}"
    if len(answer) != len(due):
        return "The result does not have one stride for each dimension of new_size."
    return None if _reach_the_same(answer, due, size, new_size) else f"A predicted stride is wrong. {_HINTS[about]}"


def _kind(answer: Any) -> str:
    odd = next((step for step in answer if type(step) is not int), None) if isinstance(answer, list) else None
    return type_name(answer) if odd is None else f"a tuple with {type_name(odd)} in it"


def _reach_the_same(stride: list[int], due: list[int], size: list[int], new_size: list[int]) -> bool:
    """Equal wherever a stride is used: not along a size of 1, not in a tensor of no elements."""
    if 0 in size:
        return True
    shape = _meta(size, [1] * len(size)).reshape(new_size).shape
    return all(n == 1 or mine == right for n, mine, right in zip(shape, stride, due))


predict_view = Exercise(
    "views.predict_view",
    criteria=(
        Criterion("merges", 3, "the strides are those of Tensor.view, and None is returned where only a copy will do"),
        Criterion("ones", 1, "dimensions of size 1 decide nothing, whatever their stride", ("merges",)),
        Criterion("expanded", 1, "dimensions of stride 0 are merged only with each other", ("merges",)),
        Criterion("inferred", 1, "-1 is replaced by the size that fits", ("merges",)),
        Criterion("empty", 1, "tensors of no elements are viewed, and an ambiguous -1 is refused", ("merges",)),
        Criterion("errors", 1, "a new_size that cannot hold the elements is refused with ValueError", ("merges",)),
    ),
    cases=_predict_view_cases,
    judge=_judge_predict_view,
)
