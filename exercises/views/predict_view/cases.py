"""E1.1 predict_view: what is asked. A question is (size, stride, new_size)."""

import math
from collections.abc import Iterator

from autograder.core.sampler import Sampler
from autograder.judge.questions import Questions, ask, refuse
from exercises.views.predict_view.asked_of_torch import is_contiguous, view_stride

Question = tuple[list[int], list[int], list[int]]
_RANDOM = 6


def predict_view_cases(sampler: Sampler) -> Iterator[Questions]:
    drawn = [_question(sampler, viewable=bool(i % 2)) for i in range(2 * _RANDOM)]
    yield ask("merges", drawn + list(_merged_and_split(sampler)))
    yield ask("ones", list(_with_ones(sampler)))
    yield ask("expanded", list(_with_repeats(sampler)))
    yield ask("inferred", list(_left_open(sampler)))
    yield ask("empty", list(_of_no_elements(sampler)))
    for criterion, refused in (("empty", _ambiguous(sampler)), ("errors", _misfits(sampler))):
        yield refuse(criterion, [(question, _why_refused(question)) for question in refused])


def _question(sampler: Sampler, viewable: bool) -> Question:
    """About a tensor that is not contiguous and can, or cannot, be viewed as something else."""
    while True:
        size, stride = _layout(sampler)
        new_size = _regrouped(sampler, size)
        found = view_stride(size, stride, new_size)
        if size != new_size and (found is not None) == viewable and not is_contiguous(size, stride):
            return size, stride, new_size


def _layout(sampler: Sampler) -> tuple[list[int], list[int]]:
    """Dimensions larger than 1, some with the gaps that a crop leaves, some permuted."""
    dimensions, stride = [], sampler.choice((1, 1, 2))
    for n in (sampler.choice((2, 3, 4, 6)) for _ in range(sampler.integer(2, 4))):
        dimensions.insert(0, (n, stride))
        stride = stride * n + sampler.choice((0, 0, 1, 5))
    if sampler.chance(0.5):
        dimensions = sampler.permutation(dimensions)
    return [n for n, _ in dimensions], [s for _, s in dimensions]


def _regrouped(sampler: Sampler, size: list[int]) -> list[int]:
    """The same elements in other dimensions: some split, some merged."""
    new_size: list[int] = []
    for factor in (factor for n in size for factor in _factors(sampler, n)):
        if new_size and sampler.chance(0.5):
            new_size[-1] *= factor
        else:
            new_size.append(factor)
    return new_size


def _factors(sampler: Sampler, n: int) -> list[int]:
    return {2: [2], 3: [3], 4: [2, 2], 6: sampler.permutation((2, 3))}[n]


def _merged_and_split(sampler: Sampler) -> Iterator[Question]:
    """What a rule of thumb gets wrong: each kind, viewable and not."""
    a, b, c = sampler.permutation((3, 5, 7))
    step, gap = sampler.integer(2, 3), sampler.integer(1, 4)
    dense, transposed = [b * c, c, 1], [1, a, a * b]
    yield [a, b, c], dense, [a * b, c]
    yield [a * b, c], [c, 1], [b, a, c]
    yield [a, b, c], transposed, [a, b, c]
    yield [a, b, c], transposed, [a * b * c]
    yield [a, b], [b * step, step], [a * b]
    yield [a, b], [b + gap, 1], [a * b]
    yield [a, b], [a, 1], [a * b]
    yield [4, 6], [6 * step, step], [3, 8]
    yield [4, 6], [6 + gap, 1], [3, 8]
    yield [4, 6], [6 + gap, 1], [8, 3]
    inner = c + gap  # rows lie apart: only a and b follow each other evenly
    yield [a, b, c], [b * inner, inner, 1], [a * b, c]
    yield [a, b, c], [b * inner, inner, 1], [a, b * c]
    outer = b * c + gap  # only b and c do
    yield [a, b, c], [outer, c, 1], [a, b * c]
    yield [a, b, c], [outer, c, 1], [a * b, c]
    yield [a, 2 * b], [1, 1], [a, 2, b]  # windows that overlap
    yield [a, 2 * b], [1, 1], [2 * a * b]
    yield [a * b], [step], [a, b]
    yield [6, 4], [6 + gap, 1], [3, 8]  # the strides of a question above, and another size
    yield [6, 4], [6, 1], [3, 8]
    yield [4, 6], [6, 1], [3, 8]
    yield from _of_many_elements(sampler)
    yield from _far_apart(sampler)


def _of_many_elements(sampler: Sampler) -> Iterator[Question]:
    """More than calls may be nested, in one dimension, in few and in many, split and merged."""
    half, gap = 8 * sampler.integer(70, 90), sampler.integer(1, 4)
    yield [2 * half], [1], [2, half]
    yield [half, 4], [4, 1], [4 * half]
    yield [half, 4], [4 + gap, 1], [2 * half, 2]
    yield [half, 4], [4 + gap, 1], [half // 2, 8]
    powers = [2**d for d in reversed(range(11))]
    yield [2] * 11, powers, [2**11]
    yield [2] * 11, powers[::-1], [2**11]
    yield [2**11], [3], [2] * 11


def _far_apart(sampler: Sampler) -> Iterator[Question]:
    """Strides that no float holds: with one more than is even, dimensions do not merge."""
    a, b, step = sampler.integer(2, 5), sampler.integer(3, 5), 2**54 + 4 * sampler.integer(1, 9)
    yield [a, b], [b * step, step], [a * b]
    yield [a, b], [b * step + 1, step], [a * b]
    yield [a * b], [step], [a, b]


def _with_ones(sampler: Sampler) -> Iterator[Question]:
    """Dimensions of size 1 in each place, of a stride that fits its neighbours or not."""
    a, b = sampler.permutation((3, 5))
    strides = (0, 1, b, a * b, sampler.integer(20, 50))
    for one in sampler.cover(at=(0, 1, 2), stride=strides, gap=(0, sampler.integer(1, 4)), merged=(True, False)):
        size, stride = [a, b], [b + one["gap"], 1]
        size.insert(one["at"], 1)
        stride.insert(one["at"], one["stride"])
        yield size, stride, [a * b] if one["merged"] else [1, a, 1, b]
    yield [a, 1, 1, b], [b, 2, 9, 1], [1, a * b, 1]
    yield [a, b], [1, a], [1, a, 1, b, 1]
    yield [a, 1, b], [0, 3, 0], [a * b]
    yield [1, a, 1], [7, 2, 0], [a]
    yield [1, 1], [sampler.integer(2, 9), 3], [1]
    yield [1], [4], []
    yield [], [], []
    yield [], [], [1, 1]


def _with_repeats(sampler: Sampler) -> Iterator[Question]:
    """Dimensions of stride 0 in each place, beside each other, beside steps, split and merged."""
    a, b, c = (sampler.choice((2, 3, 5)) for _ in range(3))
    step = sampler.integer(1, 3)
    yield [a, b, c], [0, 0, step], [a * b, c]
    yield [a, b, c], [0, 0, step], [a, b * c]
    yield [a, b, c], [step, 0, 0], [a, b * c]
    yield [a, b, c], [step, 0, 0], [a * b, c]
    yield [a, b, c], [0, step, 0], [a, b, c]
    yield [a, b, c], [0, step, 0], [a * b, c]
    yield [a, b, c], [0, c * step, step], [a, b * c]
    yield [a, b, c], [0, c * step, step], [a * b * c]
    yield [a * b, c], [0, step], [a, b, c]
    yield [a, b * c], [step, 0], [a, b, c]
    yield [a, b], [0, 1], [a * b]
    yield [a, b], [1, 0], [a * b]
    yield [a, b], [0, 0], [a * b]


def _left_open(sampler: Sampler) -> Iterator[Question]:
    """-1 in the first place, in the last and between them; for 1 and for everything. Of tensors that any rule can view.

    One side is 11, which no other question has: what is kept of those is not asked for.
    """
    for i in range(2 * _RANDOM):
        size = [*_layout(sampler)[0], 11]
        new_size = [*_regrouped(sampler, size[:-1]), 11]
        yield size, _dense(size), _opened(new_size, (0, len(new_size) - 1, len(new_size) // 2)[i % 3])
    a, b = sampler.permutation((7, 11))
    for new_size in ([a, -1], [-1], [a * b, -1], [-1, 1, a * b], [a, b, -1]):
        yield [a, b], [b, 1], new_size
    yield [], [], [-1]
    yield [], [], [1, -1]


def _dense(size: list[int]) -> list[int]:
    return [math.prod(size[d + 1 :]) for d in range(len(size))]


def _opened(new_size: list[int], at: int) -> list[int]:
    return [*new_size[:at], -1, *new_size[at + 1 :]]


def _of_no_elements(sampler: Sampler) -> Iterator[Question]:
    a, b, c = (sampler.integer(2, 9) for _ in range(3))
    stride = [sampler.integer(1, 99) for _ in range(3)]
    yield [0, a, b], stride, [0, c]
    yield [a, 0, b], stride, [c, a, 0]
    yield [a, b, 0], stride, [-1, c]
    yield [a, b, 0], stride, [a, -1, b]
    yield [a, 0, b], [1, a, a], [-1]
    yield [1, 0], [0, 0], [0, 1, 1]
    yield [0, 0], [a, 1], [0]
    yield [0], stride[:1], [0]
    yield [0], [1], [0, 0]


def _ambiguous(sampler: Sampler) -> Iterator[Question]:
    a, b, c = (sampler.integer(2, 9) for _ in range(3))
    yield [0, a], [b, 1], [0, -1]
    yield [a, 0], [1, 1], [-1, c, 0]
    yield [0], [1], [-1, 0]


def _misfits(sampler: Sampler) -> Iterator[Question]:
    """Each way not to fit, asked of a contiguous tensor and of one that can hardly be viewed."""
    a, b = sampler.choice((2, 4)), sampler.choice((7, 9))
    n = a * b
    too_many_or_few = ([a, b + 1], [a, b - 1], [2 * n], [n // 2], [n - 1], [n + 1], [0], [])
    left_open = ([-1, n + 1], [-1, n - 1], [2 * n, -1], [0, -1])
    two_open = ([-1, -1], [n, -1, -1], [-1, a, -1, b])
    negative = ([-a, -b], [-2, n], [-2, -1], [-n, -1], [-1, -2, -2], [-1, -a], [-2, -n // 2])
    wrong = (*too_many_or_few, *left_open, *two_open, *negative)
    for i, new_size in enumerate(sampler.permutation(wrong)):
        for stride in ([b, 1], [b + 1, 1]) if i < 2 else (([b, 1], [1, a], [b + 1, 1])[i % 3],):
            yield [a, b], stride, new_size
    yield from (([], [], new_size) for new_size in ([2], [0], [-1, -1], [-1, 2]))
    yield from (([0, a], [a, 1], new_size) for new_size in ([b, a], [-2, 0], [0, -1, -1], [1], []))


def _why_refused(question: Question) -> str:
    size, _, new_size = question
    elements, known = math.prod(size), math.prod(n for n in new_size if n != -1)
    if min(new_size, default=0) < -1:
        why = "has an entry less than -1"
    elif new_size.count(-1) > 1:
        why = "has more than one -1"
    elif -1 in new_size and not known and not elements:
        why = "leaves -1 ambiguous, since any size would give no elements"
    else:
        why = f"cannot hold the tensor's elements, which are {elements}"
    return f"new_size ({', '.join(map(str, new_size))}) {why}"
