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

_HELD = 13
"""Bytes for each element, from one update to the next."""
_LONGEST = 200
"""Updates that the statement allows."""
_NEAR = 1.02
"""Spacings: less than one, and what a sum in float32 is off by itself."""
_ALLOCATED_AT_LEAST = 512
_LARGE = 8192
"""Elements from which on the allocator's rounding is not seen."""
_FURTHEST = 0.4
"""Of where it began: so far an element may go."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    """The first criterion of a case is its own: an exception there costs that one alone."""
    some = lambda: (sampler.integer(6, 9), sampler.integer(7, 11))
    single, half = torch.float32, torch.bfloat16
    yield _case("drift swallowed caller host", sampler, "whole", single, *some())
    yield _case("swallowed drift caller host", sampler, "whole", half, *some())
    yield _case("host drift swallowed caller", sampler, "whole", single, *some(), again=True)
    yield _case("drift swallowed host", sampler, "whole", single, 5, _LONGEST)
    yield _case("caller drift swallowed host", sampler, "whole", single, *some(), gradient=True)
    for layout, dtype in zip(("columns", "transposed"), sampler.shuffled(single, half)):
        yield _case("caller drift swallowed host", sampler, layout, dtype, *some(), turned=True)
    yield _case("caller drift swallowed host", sampler, "columns", single, *some(), gradient=True, again=True)
    yield _case("caller drift swallowed host", sampler, "transposed", half, sampler.integer(5, 8), 24, gradient=True)
    yield _case("drift swallowed", sampler, "scalar", single, 1, 8)
    yield _case("swallowed drift", sampler, "whole", single, 3, 0)
    yield _case("swallowed drift", sampler, "whole", single, 0, 3)
    yield _case("memory", sampler, "whole", single, 96, 6)
    yield _case("caller memory", sampler, "transposed", half, 96, 3)
    for dtype in sampler.shuffled(torch.float32, torch.float16):
        because = f"the weight is {dtype}"
        yield _case("errors", sampler, "whole", single, 4, 2, of=dtype, raises="ValueError", because=because)
    for shape in sampler.shuffled((1,), (4, 1), (1, 4, 4), ()):
        because = f"an update has the shape {shape} and the weight (4, 4)"
        yield _case("errors", sampler, "whole", single, 4, 3, misfit=shape, raises="ValueError", because=because)


_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole": lambda base: base,
    "transposed": lambda base: base.t(),
    "columns": lambda base: base[1:, 1::2],
    "scalar": lambda base: base[0, 0],
}


def _case(
    criteria: str,
    sampler: Sampler,
    layout: str,
    dtype: torch.dtype,
    side: int,
    steps: int,
    of=torch.bfloat16,
    misfit: tuple[int, ...] | None = None,
    raises="",
    because="",
    **flags: bool,
) -> Case:
    """``misfit``: the shape of the last update but one. ``flags``: the weight requires a ``gradient``, the function is called
    ``again``, and updates are handed out ``turned``."""
    base = _weights(sampler, side, side + (side > 4))
    view, beside = _LAYOUTS[layout](base), torch.ones_like(base, dtype=torch.bool)
    _LAYOUTS[layout](beside).zero_()
    base[beside & (base == 0)] = 1.5  # one who writes a zero there is seen
    updates = [update.to(dtype) for update in _updates(sampler, view.float(), steps)]
    if misfit is not None:
        updates[-2] = torch.ones(misfit, dtype=dtype)
    inputs = {"base": base.to(of), "updates": updates, "gradient": False, "again": False, "turned": False, **flags}
    places = {"shape": list(view.shape), "strides": list(view.stride()), "offset": view.storage_offset()}
    return Case(tuple(criteria.split()), inputs | places, raises, because)


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
        if problem := error_problem(evidence, case.raises, case.because) or _used_problem(inputs, evidence):
            yield Failure("errors", problem)
        return
    if "error" in evidence:
        yield Failure(case.criteria[0], raised_problem(evidence["error"]))
        return
    problems = {
        "drift": lambda: _drift_problem(inputs, evidence),
        "swallowed": lambda: _swallowed_problem(inputs, evidence),
        "memory": lambda: _unworked_problem(inputs, evidence, seen) or _memory_problem(inputs, evidence, seen),
        "caller": lambda: _caller_problem(inputs, evidence),
        "host": lambda: _unworked_problem(inputs, evidence, seen) or _host_problem(evidence, seen),
    }
    for criterion in case.criteria:
        if problem := problems[criterion]():
            yield Failure(criterion, problem)


def _used_problem(inputs: dict, evidence: dict) -> str | None:
    if inputs["base"].dtype != torch.bfloat16:
        return (
            None if not noted(evidence, "given") else "An update was asked for before the weight's dtype was looked at."
        )
    before, expected = (_exact(inputs, len(inputs["updates"]) - 2)[at] for at in (0, -1))
    found = _view(inputs, _looks(inputs, evidence)[-1]).double()
    if _near(found, expected) and _rest_is_kept(inputs, evidence):
        return None
    if torch.equal(found, before):
        return "An update of another shape was refused, and those before it are not in the weight."
    return "When an update of another shape was refused, the weight was not the sum of those before it."


def _near(found: torch.Tensor, exact: torch.Tensor) -> bool:
    return bool((_spacings(found, exact) < _NEAR).all())


def _spacings(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """How many spacings of bfloat16 each element is away; NaN is infinitely far."""
    away = (found - exact).abs() / _spacing(torch.maximum(found.abs(), exact.abs()))
    return away.nan_to_num(nan=torch.inf)


def _unworked_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    if not _all_were_given(inputs, evidence):
        return "Not every update was asked for."
    return "No work of the device was seen." if len(seen.kernels) < 2 * len(inputs["updates"]) else None


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
    found = [_view(inputs, look).double() for look in (*looks[: len(expected)], looks[-1])]
    wrong = [at for at, (one, sums) in enumerate(zip(found, (*expected, expected[-1]))) if not _near(one, sums)]
    if not wrong or (_is_a_view(inputs) and torch.equal(found[-1], expected[0])):  # a copy was written to: see caller
        return None
    if torch.equal(found[-1], expected[0]):
        return (
            "The weight holds in the end what it held at first: the sum was written to another tensor, or not at all."
        )
    if len(wrong) < len(found) and _near(found[-1], expected[-1]):
        return (
            f"The weight is right in the end, and was not when update {wrong[0] + 1} was asked for: it has to hold each "
            "update before you ask for the next."
        )
    at = min(wrong[0], len(expected) - 1)
    return _first_wrong(inputs, expected, found[wrong[0]], at)


def _first_wrong(inputs: dict, expected: list[torch.Tensor], found: torch.Tensor, at: int) -> str:
    away = _spacings(found, expected[at]).flatten()
    place = int(away.argmax())
    began, is_now, due = (float(one.flatten()[place]) for one in (expected[0], found, expected[at]))
    when = f"After update {at}" if at else "Before the first update"
    told = f"{when} a weight that began at {began:g} is {is_now:g}; the exact sum is {due:.6g}, {float(away[place]):.1f} spacings of bfloat16 away."
    plain = _view(inputs, inputs["base"])
    for update in inputs["updates"][:at]:
        plain = (plain.float() + update.float()).bfloat16()
    if torch.equal(plain.double(), found):
        return (
            f"{told} It is the sum rounded to bfloat16 after each update: what is less than half a spacing is lost, unless a "
            "copy in higher precision (master weight) keeps it for the next."
        )
    return told


def _is_a_view(inputs: dict) -> bool:
    """Not the whole of its memory, in its order."""
    return inputs["strides"] != list(torch.empty(inputs["shape"]).stride()) or inputs["offset"] > 0


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
    if torch.equal(evidence["swallowed"], expected):
        return None
    place = int((evidence["swallowed"] != expected).flatten().long().argmax())
    began, found, due = (one.flatten()[place].item() for one in (start, evidence["swallowed"], expected))
    told = f"For a weight that begins at {began:g} the count is {found}; expected {due}"
    at = min(found, due)
    if not 0 <= at < len(inputs["updates"]):
        return f"{told}."
    size = inputs["updates"][at].flatten()[place].item()
    return f"{told}: update {at + 1}, of {size:g}, {'is swallowed' if found < due else 'moves it'}."


def _memory_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    elements = _view(inputs, inputs["base"]).numel()
    if any(copy.kind == "DtoH" and copy.bytes >= elements for copy in seen.copies):
        return "What was copied to the host is still held: its memory counts as the device's does."
    held = max(noted(evidence, "held"))
    if held > _HELD * elements + 8 * _ALLOCATED_AT_LEAST:
        return f"From one update to the next {held / elements:.1f} bytes were held for each element."
    return None


def _caller_problem(inputs: dict, evidence: dict) -> str | None:
    if not evidence["same"]:
        return "The weight is not the tensor that was handed in, in its place, its dtype, with its requires_grad, and without a graph."
    if _is_a_view(inputs) and torch.equal(_view(inputs, _looks(inputs, evidence)[-1]), _view(inputs, inputs["base"])):
        return "The weight, a view with strides of its own, holds what it held at first: a copy of it was written to, or nothing."
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
        Criterion("caller", 1, "the weight stays in its storage, and nothing else is changed"),
        Criterion("host", 1, "the host waits for nothing"),
        Criterion("errors", 1, "another dtype and another shape are refused"),
    ),
    cases=_cases,
    judge=_judge,
)
