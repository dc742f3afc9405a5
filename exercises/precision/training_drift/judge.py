"""E8.4 training_drift: cases and judge.

What is noted beside the learner, by its word: ``look``, what the base tensor held when an update was asked for, and at the
end; ``held``, bytes on the card then; ``given``, an update was handed out; ``written``, one was written to; ``returned``, whether the card
was still at work when the function came back.
"""

from collections.abc import Callable, Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import CAME_BACK_LATE, error_problem, raised_problem, tensor_problem
from autograder.judge.notes import noted
from gpulab import Observation

_HELD, _AT_ONCE = 13, 32
"""Bytes for each element: from one update to the next, and ever."""
_ALLOCATED_AT_LEAST = 512
_LARGE = 8192
"""Elements from which on the allocator's rounding is not seen."""
_FURTHEST = 0.4
"""Of where it began: so far an element may go."""
_VALUES = ("drift", "swallowed", "caller", "host")


def _cases(sampler: Sampler) -> Iterator[Case]:
    for layout, dtype in zip(
        sampler.shuffled("whole", "transposed", "columns", "whole"),
        sampler.shuffled(torch.float32, torch.bfloat16, torch.float32, torch.bfloat16),
    ):
        yield _case(
            _VALUES, sampler, layout, dtype, sampler.integer(6, 9), sampler.integer(7, 11), gradient=sampler.chance(0.5)
        )
    yield _case(_VALUES, sampler, "columns", torch.float32, 7, 6, gradient=True, again=True)
    yield _case(_VALUES, sampler, "whole", torch.float32, sampler.integer(5, 8), sampler.integer(48, 56), again=True)
    yield _case(_VALUES, sampler, "transposed", torch.bfloat16, sampler.integer(5, 8), 24)
    yield _case(("drift", "swallowed"), sampler, "scalar", torch.float32, 1, 8)
    yield _case(("drift", "swallowed"), sampler, "whole", torch.float32, 3, 0)
    yield _case(("drift", "swallowed"), sampler, "whole", torch.float32, 0, 3)
    yield _case(("memory",), sampler, "whole", torch.float32, 96, 6)
    yield _case(("memory",), sampler, "transposed", torch.bfloat16, 96, 3)
    for dtype in sampler.shuffled(torch.float32, torch.float16):
        yield _case(("errors",), sampler, "whole", torch.float32, 4, 2, of=dtype, raises="ValueError")
    for shape in sampler.shuffled((1,), (4, 1), (1, 4, 4), ()):
        yield _case(("errors",), sampler, "whole", torch.float32, 4, 3, misfit=shape, raises="ValueError")


_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole": lambda base: base,
    "transposed": lambda base: base.t(),
    "columns": lambda base: base[1:, 1::2],
    "scalar": lambda base: base[0, 0],
}


def _case(
    criteria: tuple[str, ...],
    sampler: Sampler,
    layout: str,
    dtype: torch.dtype,
    side: int,
    steps: int,
    gradient=False,
    again=False,
    of=torch.bfloat16,
    misfit: tuple[int, ...] | None = None,
    raises="",
) -> Case:
    """``misfit``: the shape of the last update but one."""
    base = _weights(sampler, side, side + (side > 4))
    view, beside = _LAYOUTS[layout](base), torch.ones_like(base, dtype=torch.bool)
    _LAYOUTS[layout](beside).zero_()
    base[beside & (base == 0)] = 1.5  # one who writes a zero there is seen
    updates = [update.to(dtype) for update in _updates(sampler, view.float(), steps)]
    if misfit is not None:
        updates[-2] = torch.ones(misfit, dtype=dtype)
    places = {"shape": list(view.shape), "strides": list(view.stride()), "offset": view.storage_offset()}
    return Case(
        criteria, {"base": base.to(of), "updates": updates, "gradient": gradient, "again": again, **places}, raises
    )


def _weights(sampler: Sampler, rows: int, columns: int) -> torch.Tensor:
    """Of all mantissas and several sizes; powers of two and zeros among them."""
    mantissas = _drawn(rows * columns, lambda: sampler.choice((128, 129, sampler.integer(128, 255))))
    signs = _drawn(rows * columns, lambda: sampler.choice((-1.0, 1.0, 1.0, 0.0, -1.0)))
    exponents = _drawn(rows * columns, lambda: sampler.integer(-6, 6))
    return torch.ldexp(signs * mantissas / 128, exponents).view(rows, columns).bfloat16()


def _drawn(count: int, one: Callable[[], float]) -> torch.Tensor:
    """So many values; where they are many, a hundred over and over."""
    few = torch.tensor([one() for _ in range(min(count, 101))])
    return few.repeat(-(-count // 101))[:count]


_SHARES = (0.0, 1 / 64, 0.15, 0.3, 0.5, 0.5, 0.5005, 0.5005, 0.75, 1.5)
"""Of the spacing: what a plain sum swallows, what it does not, and ties between. 0.5005 is a tie once bfloat16 rounds it."""


def _updates(sampler: Sampler, weight: torch.Tensor, steps: int) -> list[torch.Tensor]:
    """For each element one share of its spacing and one sign; at one step, drawn for each, two spacings instead."""
    spacing = torch.where(weight == 0, torch.tensor(2.0**-8), _spacing(weight))
    furthest = [share for share in _SHARES if share * steps <= 128 * _FURTHEST - 4]
    drawn = lambda one: _drawn(weight.numel(), one).view(weight.shape)
    shares, signs = drawn(lambda: sampler.choice(furthest)), drawn(lambda: sampler.choice((-1.0, 1.0)))
    at = drawn(lambda: sampler.integer(0, 2 * steps))
    return [torch.where(at == step, torch.tensor(2.0), shares) * signs * spacing for step in range(steps)]


def _spacing(values: torch.Tensor) -> torch.Tensor:
    """The distance to the next bfloat16 away from 0."""
    return torch.ldexp(torch.ones_like(values), (torch.frexp(values.abs()).exponent - 8).clamp(min=-133))


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    seen, inputs = Observation.from_dict(evidence["seen"]), case.inputs
    if case.raises:
        if problem := error_problem(evidence, case.raises) or _used_problem(inputs, evidence):
            yield Failure("errors", problem)
        return
    if "error" in evidence:
        yield from (Failure(criterion, raised_problem(evidence["error"])) for criterion in case.criteria)
        return
    problems = {
        "drift": _drift_problem(inputs, evidence),
        "swallowed": _swallowed_problem(inputs, evidence),
        "memory": _drift_problem(inputs, evidence) or _memory_problem(inputs, evidence, seen),
        "caller": _caller_problem(inputs, evidence),
        "host": _host_problem(evidence, seen),
    }
    for criterion in case.criteria:
        if problems[criterion]:
            yield Failure(criterion, problems[criterion])


def _used_problem(inputs: dict, evidence: dict) -> str | None:
    if inputs["base"].dtype != torch.bfloat16:
        return (
            None if not noted(evidence, "given") else "An update was asked for before the weight's dtype was looked at."
        )
    expected = _exact(inputs, steps=len(inputs["updates"]) - 2)[-1]
    found = _view(inputs, _looks(inputs, evidence)[-1]).double()
    near = ((found - expected).abs() < _spacing(torch.maximum(found.abs(), expected.abs()))).all()
    return (
        None
        if bool(near) and _rest_is_kept(inputs, evidence)
        else "An update of another shape was used before the error."
    )


def _looks(inputs: dict, evidence: dict) -> list[torch.Tensor]:
    """All elements of the base tensor, for each look in a row."""
    dtype = inputs["base"].dtype
    return [
        torch.frombuffer(bytearray(look), dtype=dtype) if look else torch.empty(0, dtype=dtype)
        for look in noted(evidence, "look")
    ]


def _all_were_given(inputs: dict, evidence: dict) -> bool:
    return len(noted(evidence, "given")) == len(inputs["updates"])


def _view(inputs: dict, look: torch.Tensor) -> torch.Tensor:
    return look.clone(memory_format=torch.contiguous_format).as_strided(
        inputs["shape"], inputs["strides"], inputs["offset"]
    )


def _exact(inputs: dict, steps: int) -> list[torch.Tensor]:
    """The exact sums after 0, 1, 2 ... updates."""
    sums = [_view(inputs, inputs["base"]).double()]
    for update in inputs["updates"][:steps]:
        sums.append(sums[-1] + update.double())
    return sums


def _drift_problem(inputs: dict, evidence: dict) -> str | None:
    expected, looks = _exact(inputs, len(inputs["updates"])), _looks(inputs, evidence)
    if len(looks) < len(expected) or not _all_were_given(inputs, evidence):
        return "Not every update was asked for."
    for sums, look in zip((*expected, expected[-1]), (*looks[: len(expected)], looks[-1])):
        found = _view(inputs, look).double()
        if not bool(((found - sums).abs() < _spacing(torch.maximum(found.abs(), sums.abs()))).all()):
            return (
                "The weight is not the sum of its updates: an update below half a spacing of bfloat16 is lost, "
                "unless a copy in higher precision (master weight) keeps it for the next."
            )
    return None


def _swallowed_problem(inputs: dict, evidence: dict) -> str | None:
    start = _view(inputs, inputs["base"])
    still, expected = torch.ones(start.shape, dtype=torch.bool), torch.zeros(start.shape, dtype=torch.int32)
    for update in inputs["updates"]:
        still &= (start.float() + update.float()).bfloat16() == start
        expected += still
    if not evidence["on_card"]:
        return "What came back is not a tensor on the device."
    if problem := tensor_problem(evidence["swallowed"], expected):
        return problem
    if not torch.equal(evidence["swallowed"], expected):
        return (
            "The count of swallowed updates is wrong: it starts at the initial weight and ends at the first "
            "update that moves it; ties go to the even neighbour, and below a power of two the spacing is "
            "half as large."
        )
    return None


def _memory_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    elements = _view(inputs, inputs["base"]).numel()
    if not seen.kernels or elements < _LARGE:
        return "No work of the device was seen."
    if any(copy.kind == "DtoH" and copy.bytes >= elements for copy in seen.copies):
        return "What was copied to the host is still held: its memory counts as the device's does."
    held = max(noted(evidence, "held"))
    if held > _HELD * elements + 8 * _ALLOCATED_AT_LEAST:
        return f"From one update to the next {held / elements:.1f} bytes were held for each element."
    if seen.peak_bytes > _AT_ONCE * elements + 8 * _ALLOCATED_AT_LEAST:
        return f"At its peak {seen.peak_bytes / elements:.1f} bytes were held for each element."
    return None


def _caller_problem(inputs: dict, evidence: dict) -> str | None:
    if not evidence["same"]:
        return "The weight is not the tensor that was handed in, in its place, its dtype and without a graph."
    if noted(evidence, "written"):
        return "An update was written to: it is the caller's."
    if not _rest_is_kept(inputs, evidence):
        return "Elements beside the weight's own were changed."
    if not _all_were_given(inputs, evidence):
        return "Not every update was asked for."
    return None


def _rest_is_kept(inputs: dict, evidence: dict) -> bool:
    kept, found = inputs["base"].flatten().clone(), _looks(inputs, evidence)[-1].clone()
    for one in (kept, found):
        one.as_strided(inputs["shape"], inputs["strides"], inputs["offset"]).zero_()
    return torch.equal(kept, found)


def _host_problem(evidence: dict, seen: Observation) -> str | None:
    if not seen.kernels:
        return "No work of the device was seen."
    if seen.waits:
        line = next((str(wait.line) for wait in seen.waits if wait.line), "")
        return f"The host waited, for example at `{line:.80}`: a question about a tensor's values is a wait."
    if noted(evidence, "returned") != [True]:
        return CAME_BACK_LATE
    return None


exercise = Exercise(
    criteria=(
        Criterion("drift", 2, "the weight is the sum of its updates, to one spacing (ulp), after every update"),
        Criterion("swallowed", 2, "the updates that bfloat16 would round away are counted"),
        Criterion("memory", 1, "no more bytes are held than one copy in higher precision needs"),
        Criterion("caller", 1, "the weight stays in its storage, and nothing else is changed", ("drift",)),
        Criterion("host", 1, "the host waits for nothing", ("drift",)),
        Criterion("errors", 1, "another dtype and another shape are refused", ("drift",)),
    ),
    cases=_cases,
    judge=_judge,
)
