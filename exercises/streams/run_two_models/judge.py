"""E6.3 run_two_models: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, tensor_problem, type_name
from gpulab import Observation
from gpulab.observe import Kernel, Race

_OVERLAP_SHARE = 0.7
"""Of the shorter model's time, this much must run beside the other; launches and a first cudaMalloc take 100 to 200 us."""

_USES = {
    "alone": [0],
    "late inputs": [0, 1],
    "early use": [0, 1, 0],
    "inputs let go": [0],
    "several callers": list(range(6)),
    "streams of its own": list(range(7)),
}
"""Of which calls the caller uses the outputs, in order."""


def _run_two_models_cases(sampler: Sampler) -> Iterator[Case]:
    yield _case(("values", "overlap", "host"), sampler, "alone")
    yield _case(("values", "inputs", "host"), sampler, "late inputs", grad=True)
    yield _case(("values", "outputs", "host"), sampler, "early use")
    yield _case(("values", "outputs", "overlap", "host"), sampler, "inputs let go", grad=True)
    yield _case(("values", "caller", "host"), sampler, "several callers")
    yield _case(("values", "overlap", "host"), sampler, "streams of its own", grad=True)


def _case(criteria: tuple[str, ...], sampler: Sampler, tick: str, grad: bool = False) -> Case:
    """``grad``: whether gradients are recorded, as they are outside ``torch.no_grad()``."""
    widths = sampler.permutation([sampler.integer(5, 9), sampler.integer(11, 17)])
    inputs = [sampler.within_one(sampler.integer(2, 4), width) for width in widths]
    weights = [sampler.within_one(width, sampler.integer(3, 8)) for width in widths]
    us = sampler.permutation([sampler.integer(900, 1200), sampler.integer(1300, 1800)])
    return Case(
        criteria, {"image": inputs[0], "state": inputs[1], "weights": weights, "us": us, "tick": tick, "grad": grad}
    )


def _reference(inputs: dict, call: int) -> list[torch.Tensor]:
    """What the caller makes of the outputs of a call, in float64."""
    pairs = zip((inputs["image"], inputs["state"]), inputs["weights"], strict=True)
    return [2 * torch.tanh((x.double() + 1 + call) @ weight.double()) for x, weight in pairs]


def _judge_run_two_models(case: Case, evidence: dict) -> Iterator[Failure]:
    seen = Observation.from_dict(evidence["seen"])
    if wrong := _calls_problem(seen, case) or _outputs_of_calls_problem(case, evidence["outputs"]):
        yield Failure("values", wrong)
    problems = {criterion: _PROBLEM[criterion](seen, case) for criterion in case.criteria[1:]}
    problems["host"] = problems["host"] or _held_problem(case, evidence["host_us"])
    if "caller" in problems and evidence["stays"] != [True] * _calls(case):
        problems["caller"] = (
            "The caller's stream is not the current one afterwards: set_stream is not undone by itself."
        )
    for criterion, problem in problems.items():
        if problem := problem or _one_stream_problem(seen, case):
            yield Failure(criterion, problem)


def _calls(case: Case) -> int:
    """How often a tick calls the function."""
    return len(set(_USES[case.inputs["tick"]]))


def _calls_problem(seen: Observation, case: Case) -> str | None:
    return (
        None
        if len(_spins(seen, case)) == 2 * _calls(case)
        else "Each model is to be called once, for each call of the function."
    )


def _outputs_of_calls_problem(case: Case, outputs: object) -> str | None:
    uses = _USES[case.inputs["tick"]]
    if problem := count_problem(outputs, len(uses)):
        return problem
    found = (_values_problem(_reference(case.inputs, call), used) for call, used in zip(uses, outputs, strict=True))
    return next(filter(None, found), None)


def _held_problem(case: Case, host_us: object) -> str | None:
    """The shorter model takes many times what the host needs for all its launches."""
    if count_problem(host_us, _calls(case)) or not all(us < min(case.inputs["us"]) for us in host_us):
        return "The host does not come back before the device is done: to ask it again and again is to wait."
    return None


def _values_problem(expected: list[torch.Tensor], used: object) -> str | None:
    if not isinstance(used, list) or len(used) != 2:
        return f"The function returned {type_name(used)}; expected a tuple of two device tensors."
    if _agree(expected[::-1], used):
        return "The pair is the other way round: expected (image_model(image), action_model(state))."
    if any(tensor_problem(value, right.float()) for value, right in zip(used, expected)):
        return "The pair is not (image_model(image), action_model(state)): a type or a shape is wrong."
    if not _agree(expected, used):
        return "The pair does not hold the values of (image_model(image), action_model(state))."
    return None


def _agree(expected: list[torch.Tensor], used: list) -> bool:
    return all(
        not tensor_problem(value, right.float()) and torch.allclose(value.double(), right, 1e-3, 1e-4)
        for value, right in zip(used, expected, strict=True)
    )


def _spins(seen: Observation, case: Case) -> list[Kernel]:
    """One for each call of a model, in order. The caller's own are shorter or longer than any model's."""
    shortest, longest = 0.9 * min(case.inputs["us"]), 1.1 * max(case.inputs["us"])
    spins = (kernel for kernel in seen.kernels if kernel.name == "spin_kernel")
    return [kernel for kernel in spins if shortest < kernel.end_us - kernel.start_us < longest]


def _one_stream_problem(seen: Observation, case: Case) -> str | None:
    """One stream needs no order and no waits: that it has neither is nobody's merit."""
    spins = _spins(seen, case)
    if any(first.stream == second.stream for first, second in zip(spins[::2], spins[1::2])):
        return "Both models are in one stream, where nothing has to be put in order."
    return None


def _inputs_problem(seen: Observation, case: Case) -> str | None:
    return _race_problem(
        seen,
        "A model reads its input while the caller's stream may still be writing it: a side stream waits for nobody "
        "until it is told to, and what orders it is a wait for the caller's current stream, asked for after the "
        "input's last kernel was launched.",
    )


def _outputs_problem(seen: Observation, case: Case) -> str | None:
    return _race_problem(
        seen,
        "The caller's stream uses an output that a side stream may still be writing, or gives out the memory of an input "
        "that it may still be reading: the way back needs a wait as well, for a point of the side stream behind the "
        "model's last kernel.",
    )


def _caller_problem(seen: Observation, case: Case) -> str | None:
    if seen.races and all(race.reuse for race in seen.races):
        return _race_problem(
            seen,
            "An output's memory is given out again while a caller's stream still reads it: it belongs to the stream "
            "that it was allocated on, and record_stream tells the allocator of the other.",
        )
    return _race_problem(
        seen,
        "Called from one stream and then from another, the function races: the stream to wait for, and to make wait, "
        "is the caller's current one, whichever that is.",
    )


def _race_problem(seen: Observation, message: str) -> str | None:
    if not seen.kernels:
        return "No work of the device was seen."
    if not seen.races:
        return None
    return f"{message} ({_described(seen.races[0])})"


def _described(race: Race) -> str:
    lines = (race.second_line, race.first_line)
    # The caller's own lines are the graded cell's.
    line = next((line for line in lines if line and line.function != "<module>"), None)
    return f"{race.kind}" + (f" at `{str(line):.80}`" if line else "")


def _overlap_problem(seen: Observation, case: Case) -> str | None:
    spins = _spins(seen, case)
    for pair in zip(spins[::2], spins[1::2]):
        shared = min(k.end_us for k in pair) - max(k.start_us for k in pair)
        if shared >= _OVERLAP_SHARE * min(case.inputs["us"]):
            continue
        if pair[0].stream == pair[1].stream:
            return "Both models are in one stream, which runs its kernels one after the other."
        return "The models are in two streams and yet one runs after the other: something makes the second wait for the first."
    return None


def _host_problem(seen: Observation, case: Case) -> str | None:
    if not seen.kernels:
        return "No work of the device was seen."
    if not seen.waits:
        return None
    return (
        f"The host waits ({seen.waits[0].reason}): the device can be told to wait instead, by wait_stream or wait_event, "
        "and the host goes on to the next tick."
    )


_PROBLEM = {
    "inputs": _inputs_problem,
    "outputs": _outputs_problem,
    "overlap": _overlap_problem,
    "host": _host_problem,
    "caller": _caller_problem,
}

exercise = Exercise(
    criteria=(
        Criterion("values", 1, "the pair is (image_model(image), action_model(state))"),
        Criterion("inputs", 2, "no model reads an input before the caller's stream has written it", ("values",)),
        Criterion("outputs", 2, "the caller may use the outputs at once", ("values",)),
        Criterion("overlap", 1, "the two models overlap on the device", ("values",)),
        Criterion("host", 1, "the host waits for nothing", ("values",)),
        Criterion(
            "caller",
            1,
            "called from one stream after another, there are no races, also on memory that the allocator reuses",
            ("values",),
        ),
    ),
    cases=_run_two_models_cases,
    judge=_judge_run_two_models,
)
