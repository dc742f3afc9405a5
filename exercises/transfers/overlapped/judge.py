"""E5.1 overlapped: cases and judge. Times are the virtual card's; bounds are recomputed here."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, tensor_problem, type_name
from autograder.protocol.wire import Opaque
from gpulab import Observation
from gpulab.cuda import CARDS
from gpulab.cuda.machine.machine import Machine
from gpulab.observe.records import Race

_TIMED = ("values", "hidden", "races", "host_memory", "device_memory")
_SLACK = 1.3  # for the host, which stages, launches and waits between copies
_STEP_BATCHES = 1  # a step makes one product of a batch
_HOST_BUFFERS, _DEVICE_BATCHES, _BATCHES_OUT = 2, 3, 3
_CARD = CARDS["T4"]


def _overlapped_cases(sampler: Sampler) -> Iterator[Case]:
    numbers = sampler.tensor(262, 3144)
    for number, step_per_copy in enumerate(sampler.permutation((0.5, 1.0, 2.0))):
        rows, columns = sampler.integer(250, 262), sampler.integer(3000, 3144)
        count = 10 if step_per_copy == 1 else 6  # who works in pairs is 1.5 times as slow where nothing is longer
        how = {"as_generator": number == 1, "side_stream": number == 2}
        nbytes = rows * columns * 4
        depth = round((step_per_copy * _copy_us(nbytes) - _reading_us(nbytes)) / _product_us(1))
        yield _case(sampler, _TIMED, [rows] * count, numbers[:rows, :columns].clone(), depth, **how)
    columns, several = (
        sampler.integer(100, 120),
        [12] * sampler.integer(2, 3),
    )  # a row is larger than all results, twice
    for rows, shape, dtype, how in (
        ([], (columns,), torch.float32, {}),
        ([sampler.integer(5, 9)], (3, columns), torch.float64, {"gaps": True}),
        ([*several, sampler.integer(2, 11)], (columns,), torch.int64, {"as_generator": True}),
        ([*several, sampler.integer(2, 11)], (columns,), torch.bfloat16, {}),
        ([*several, 1], (columns,), torch.float32, {"side_stream": True, "gaps": True, "calls": 2}),
    ):
        numbers = sampler.tensor(max(rows, default=1), *shape, dtype=dtype)
        yield _case(sampler, ("edges",), rows, numbers, sampler.integer(1, 9), **how)


def _case(
    sampler: Sampler, criteria: tuple, rows: list[int], drawn: torch.Tensor, depth: int, calls: int = 1, **how: bool
) -> Case:
    """``depth``: of the product that decides how long a step takes."""
    columns, dtype = drawn.shape[-1], drawn.dtype
    weight = torch.full((columns,), 2, dtype=dtype)
    if dtype.is_floating_point:
        drawn, weight = drawn / drawn.numel(), 1 + sampler.tensor(columns, dtype=dtype) / (8 * columns)
    inputs = {"drawn": drawn, "rows": rows, "weight": weight, "depth": depth, "calls": calls}
    return Case(criteria, {**inputs, **dict.fromkeys(("as_generator", "side_stream", "gaps"), False), **how})


def _copy_us(nbytes: int) -> float:
    return Machine(_CARD).copy_us(nbytes, pinned=True)


def _product_us(depth: int) -> float:
    """A step's product of 64 times 64 numbers: one tile, so one multiprocessor works on it."""
    return 2 * 64 * 64 * depth / (_CARD.matrix_flops_per_s("fp64 matrix") / _CARD.multiprocessors) * 1e6


def _reading_us(nbytes: int) -> float:
    """A step reads its batch, writes what becomes of it and reads that."""
    return 3 * nbytes / _CARD.sustained_bytes_per_s * 1e6


def _sizes(inputs: dict) -> list[int]:
    """Bytes of each batch."""
    of_a_row = inputs["drawn"].nbytes // len(inputs["drawn"])
    return [rows * of_a_row for rows in inputs["rows"]]


def _judge_overlapped(case: Case, evidence: dict) -> Iterator[Failure]:
    problem = _wrong_values(case.inputs, evidence)
    if case.criteria == ("edges",):
        problem = (
            problem or _badly_page_locked(case.inputs, evidence) or _raced(Observation.from_dict(evidence["seen"]))
        )
    if problem:
        yield Failure(case.criteria[0], problem)
    if problem or case.criteria == ("edges",):
        return
    seen, nbytes = Observation.from_dict(evidence["seen"]), _sizes(case.inputs)[0]
    idle = _nothing_asynchronous(seen)
    for criterion, problem in (
        ("hidden", _not_hidden(seen, nbytes, len(case.inputs["rows"]), case.inputs["depth"])),
        ("races", _raced(seen) or idle),
        (
            "host_memory",
            _too_much_pinned(evidence["pinned_bytes"][0], nbytes) or _read_ahead(evidence["ahead"]) or idle,
        ),
        ("device_memory", _too_much_on_device(evidence["peak_bytes"], nbytes) or idle),
    ):
        if problem:
            yield Failure(criterion, problem)


def _expected(inputs: dict) -> list[torch.Tensor]:
    """The result of each batch: those of what was drawn, turned as the batch is."""
    drawn = inputs["drawn"]
    results = ((drawn.double() * inputs["weight"].double()).sum(1) + 1).to(drawn.dtype)
    return [results.roll(i, 0)[:rows] for i, rows in enumerate(inputs["rows"])]


def _wrong_values(inputs: dict, evidence: dict) -> str | None:
    if problem := count_problem(evidence["values"], inputs["calls"]):
        return problem
    for values, is_list in zip(evidence["values"], evidence["lists"], strict=True):
        if not is_list or not isinstance(values, list):
            return f"The function returned {'a tuple' if isinstance(values, list) else type_name(values)}; expected a list of host tensors."
        if len(values) != len(inputs["rows"]):
            return "There is not one result for each batch."
    values = [value for each in evidence["values"] for value in each]
    expected = _expected(inputs) * inputs["calls"]
    if evidence["rows"] != inputs["rows"] * inputs["calls"]:
        return "step was not called once for each batch, in order, on the device."
    problem = next(filter(None, map(_wrong_value, values, expected)), None)
    if problem or _travelled(inputs, Observation.from_dict(evidence["seen"])):
        return problem
    return (
        "Every batch travels to the device, is worked on there, and its result travels back: not all of that was seen."
    )


def _badly_page_locked(inputs: dict, evidence: dict) -> str | None:
    """Why a small case broke what large ones are asked for too, or None."""
    least = min(_sizes(inputs), default=0)
    sent = [copy for copy in Observation.from_dict(evidence["seen"]).copies if copy.kind == "HtoD"]
    if any(not copy.pinned and copy.bytes >= least for copy in sent):
        return "A batch travelled from pageable memory: the last one and the only one go as the others do."
    taken = evidence["pinned_bytes"]
    if least and not all(type(of_one) is int and of_one >= least for of_one in taken):
        return "A call took no page-locked memory of its own: what an earlier call left is not made inside this one."
    return _a_third_buffer(inputs, taken)


def _a_third_buffer(inputs: dict, pinned_bytes: list) -> str | None:
    """Two buffers, and the results, which may be page-locked too."""
    results = sum(result.nbytes for result in _expected(inputs))
    most = _HOST_BUFFERS * max(_sizes(inputs), default=0) + 2 * results
    if all(type(of_one) is int and of_one <= most for of_one in pinned_bytes):
        return None
    return (
        "More page-locked memory was taken than two buffers of one batch: a shorter batch fits into one that is there."
    )


def _travelled(inputs: dict, seen: Observation) -> bool:
    """Whether the device's record holds all batches, all steps and all results."""
    moved = {kind: sum(copy.bytes for copy in seen.copies if copy.kind == kind) for kind in ("HtoD", "DtoH")}
    ran = Counter(kernel.name for kernel in seen.kernels)
    steps = len(inputs["rows"]) * inputs["calls"]
    return (
        moved["HtoD"] >= sum(_sizes(inputs)) * inputs["calls"]
        and min(ran["aten.mm"], ran["aten.mul"], ran["aten.sum"]) >= steps
        and moved["DtoH"] >= sum(result.nbytes for result in _expected(inputs)) * inputs["calls"]
    )


def _rounding(x: torch.Tensor) -> float:
    return torch.finfo(x.dtype).eps if x.is_floating_point() else 0


def _wrong_value(value: Any, expected: torch.Tensor) -> str | None:
    if isinstance(value, Opaque) and "cuda" in value.type_name:
        return "A result is still on the device: the caller reads host tensors."
    problem = tensor_problem(value, expected)
    # The sum that precedes the addition of 1 is rounded as it is, however near to -1.
    if problem or torch.allclose(
        value, expected, rtol=max(1e-3, 4 * _rounding(expected)), atol=max(1e-4, _rounding(expected))
    ):
        return problem
    if not value.any():
        return (
            "A result holds zeros: it was handed back before its copy had arrived. A copy to the "
            "host with non_blocking=True is not there until the host has synchronised with it."
        )
    return "A result is not that of its batch."


def _not_hidden(seen: Observation, nbytes: int, count: int, depth: int) -> str | None:
    copies = [copy for copy in seen.copies if copy.kind == "HtoD"]
    if sum(copy.bytes for copy in copies) < count * nbytes or not seen.kernels:
        return "The copies of the batches were not seen on the device's timeline."
    if any(not copy.pinned and copy.bytes * 8 > nbytes for copy in copies):
        return (
            "A batch travelled from pageable memory: the driver stages it and the host stands still, "
            "whatever non_blocking says."
        )
    if _from_third_copy(copies, seen, 2 * nbytes) <= _expected_us(nbytes, count, depth):
        return None
    if _one_stream(seen):
        return "Copies and steps are in one stream, so they take turns: a stream is a queue."
    return "Copies and steps have streams of their own and still take turns: something makes each wait for the other."


def _one_stream(seen: Observation) -> bool:
    copies = [copy for copy in seen.copies if copy.kind == "HtoD"]
    return len({copy.stream for copy in copies} | {kernel.stream for kernel in seen.kernels}) == 1


def _nothing_asynchronous(seen: Observation) -> str | None:
    """Such a loop races with nothing and needs no buffers: that is nobody's merit."""
    if not _one_stream(seen) or any(copy.pinned for copy in seen.copies if copy.kind == "HtoD"):
        return None
    return (
        "All copies are from pageable memory and in the stream of the steps: each is over before the next thing begins."
    )


def _from_third_copy(copies: list, seen: Observation, skip: int) -> float:
    """Microseconds from the copy that follows the first ``skip`` bytes to the last kernel's end."""
    begun = 0
    for copy in sorted(copies, key=lambda copy: copy.start_us):
        if begun >= skip:
            return max(kernel.end_us for kernel in seen.kernels) - copy.start_us
        begun += copy.bytes
    return float("inf")


def _expected_us(nbytes: int, count: int, depth: int) -> float:
    """What the third batch and all that follow may take, from the first of their copies to the last kernel."""
    copy, step = _copy_us(nbytes), _product_us(depth) + _reading_us(nbytes)
    return _SLACK * ((count - 3) * max(copy, step) + copy + step)


def _raced(seen: Observation) -> str | None:
    return _named_race(seen.races[0]) if seen.races else None


def _named_race(race: Race) -> str:
    where = f" ({race.second_line})" if race.second_line else ""
    if race.reuse:
        return (
            f"Device memory was handed out again while another stream still used it{where}: the "
            "allocator knows only the stream that a tensor was made on. Another that is the first to write to it "
            "waits for that stream; one that still uses it is told of by record_stream."
        )
    if -1 in (race.first_stream, race.second_stream):
        return (
            f"The host touched page-locked memory while a copy was still using it{where}: after a "
            "non_blocking copy the buffer is free only when the host has waited for that copy."
        )
    return (
        f"A {race.kind} on the device that nothing puts in order{where}: work in two streams is "
        "ordered by wait_event or wait_stream alone."
    )


def _too_much_pinned(pinned_bytes: Any, nbytes: int) -> str | None:
    """Two buffers; half of another is left for results, which are small."""
    if type(pinned_bytes) is int and pinned_bytes <= (_HOST_BUFFERS + 0.5) * nbytes:
        return None
    return (
        "New page-locked memory was taken for every batch. pin_memory() allocates and copies; two "
        "buffers, filled again and again, do for any number of batches."
    )


def _read_ahead(ahead: Any) -> str | None:
    if type(ahead) is int and ahead <= _BATCHES_OUT:
        return None
    return "A generator was read far ahead of the steps: its batches then lie on the host all at once."


def _too_much_on_device(peak_bytes: Any, nbytes: int) -> str | None:
    if type(peak_bytes) is int and nbytes < peak_bytes <= (_DEVICE_BATCHES + _STEP_BATCHES + 0.4) * nbytes:
        return None
    return (
        "More than three batches were on the device at once: the copies ran ahead of the steps, and "
        "nothing held them back."
    )


exercise = Exercise(
    criteria=(
        Criterion("values", 2, "the results are right, in order, and can be read at once"),
        Criterion("hidden", 4, "copies from pinned memory overlap with steps", ("values",)),
        Criterion("races", 3, "there are no races: every two uses of the same bytes are ordered", ("values",)),
        Criterion("host_memory", 1, "two pinned buffers suffice for any number of batches", ("values",)),
        Criterion("device_memory", 2, "at most three batches are on the device at a time", ("values",)),
        Criterion("edges", 1, "no batch, one batch and a shorter last batch are right", ("values",)),
    ),
    cases=_overlapped_cases,
    judge=_judge_overlapped,
)
