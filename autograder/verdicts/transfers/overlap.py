"""E5.1 overlapped: cases and judge. Times are the virtual card's; bounds are recomputed here."""

from collections.abc import Iterator
from typing import Any

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import tensor_problem, type_name
from autograder.wire import Opaque
from gpulab import Observation
from gpulab.cuda import CARDS
from gpulab.cuda.machine.machine import Machine
from gpulab.observe.records import Race

_TIMED = ("values", "hidden", "races", "host_memory", "device_memory")
_SLACK = 1.1
_STEP_BATCHES = 2  # a pass of the step holds what it reads and what it writes
_HOST_BUFFERS, _DEVICE_BATCHES = 2, 3
_CARD = CARDS["T4"]


def _overlapped_cases(draw: Draw) -> Iterator[Case]:
    for number, step_per_copy in enumerate(draw.shuffled((0.5, 1.0, 2.0))):
        rows, columns, count = draw.integer(250, 262), draw.integer(1000, 1048), draw.integer(10, 12)
        passes = round(step_per_copy * _copy_us(rows * columns * 4) / _pass_us(rows * columns * 4))
        yield _case(draw, _TIMED, [rows] * count, columns, passes, as_generator=number == 1)
    columns = draw.integer(40, 60)
    for rows in ([], [draw.integer(5, 9)], [12] * draw.integer(3, 4) + [draw.integer(1, 11)]):
        yield _case(draw, ("edges",), rows, columns, draw.integer(1, 3), as_generator=len(rows) > 1)


def _case(draw: Draw, about: tuple, rows: list[int], columns: int, passes: int, as_generator: bool) -> Case:
    most = max(rows, default=1)
    drawn = draw.tensor(most, columns) / (most * columns)
    inputs = {
        "batches": [drawn.roll(i, 0)[:n].clone() for i, n in enumerate(rows)],
        "weight": 1 + draw.tensor(columns) / (8 * columns),
        "passes": passes,
        "as_generator": as_generator,
    }
    return Case(about, inputs)


def _copy_us(nbytes: int) -> float:
    return Machine(_CARD).copy_us(nbytes, pinned=True)


def _pass_us(nbytes: int) -> float:
    """One pass of the step reads a batch and writes one."""
    return 2 * nbytes / _CARD.bytes_per_s * 1e6


def _judge_overlapped(case: Case, evidence: dict) -> Iterator[Lost]:
    problem = _wrong_values(case.inputs, evidence)
    if problem:
        yield Lost(case.about[0], problem)
    if problem or case.about == ("edges",):
        return
    seen, nbytes = Observation.from_dict(evidence["seen"]), case.inputs["batches"][0].nbytes
    idle = _nothing_asynchronous(seen)
    for criterion, problem in (
        ("hidden", _not_hidden(seen, nbytes, len(case.inputs["batches"]))),
        ("races", _raced(seen) or idle),
        ("host_memory", _too_much_pinned(evidence["pinned_bytes"], nbytes) or idle),
        ("device_memory", _too_much_on_device(evidence["peak_bytes"], nbytes) or idle),
    ):
        if problem:
            yield Lost(criterion, problem)


def _reference(batch: torch.Tensor, inputs: dict) -> torch.Tensor:
    return (batch.double() * inputs["weight"].double() ** inputs["passes"]).sum(1).float()


def _wrong_values(inputs: dict, evidence: dict) -> str | None:
    values, due = evidence["values"], [_reference(batch, inputs) for batch in inputs["batches"]]
    if not isinstance(values, list):
        return f"The function returned {type_name(values)}; a list of host tensors is due."
    if len(values) != len(due):
        return "There is not one result for each batch."
    if evidence["rows"] != [len(batch) for batch in inputs["batches"]]:
        return "step was not called once for each batch, in order, on the device."
    problem = next(filter(None, map(_wrong_value, values, due)), None)
    if problem or _travelled(inputs, Observation.from_dict(evidence["seen"])):
        return problem
    return "Every batch travels to the device, is worked on there, and its result travels back: not all of that was seen."


def _travelled(inputs: dict, seen: Observation) -> bool:
    """Whether the device's record holds all batches, all steps and all results."""
    moved = {kind: sum(copy.bytes for copy in seen.copies if copy.kind == kind) for kind in ("HtoD", "DtoH")}
    passes = sum(kernel.name == "aten.mul" for kernel in seen.kernels)
    return (
        moved["HtoD"] >= sum(batch.nbytes for batch in inputs["batches"])
        and passes >= inputs["passes"] * len(inputs["batches"])
        and moved["DtoH"] >= sum(len(batch) * batch.element_size() for batch in inputs["batches"])
    )


def _wrong_value(value: Any, due: torch.Tensor) -> str | None:
    if isinstance(value, Opaque) and "cuda" in value.type_name:
        return "A result is still on the device: the caller reads host tensors."
    problem = tensor_problem(value, due)
    if problem or torch.allclose(value, due, rtol=1e-3, atol=1e-4):
        return problem
    if not value.any():
        return (
            "A result holds zeros: it was handed back before its copy had arrived. A copy to the "
            "host with non_blocking=True is not there until the host has synchronised with it."
        )
    return "A result is not that of its batch."


def _not_hidden(seen: Observation, nbytes: int, count: int) -> str | None:
    copies = [copy for copy in seen.copies if copy.kind == "HtoD"]
    if sum(copy.bytes for copy in copies) < count * nbytes or not seen.kernels:
        return "The copies of the batches were not seen on the device's timeline."
    if any(not copy.pinned and copy.bytes * 8 > nbytes for copy in copies):
        return (
            "A batch travelled from pageable memory: the driver stages it and the host stands still, "
            "whatever non_blocking says."
        )
    if _from_third_copy(copies, seen, 2 * nbytes) <= _due_us(seen, nbytes, count):
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
    return "All copies are from pageable memory and in the stream of the steps: each is over before the next thing begins."


def _from_third_copy(copies: list, seen: Observation, skip: int) -> float:
    """Microseconds from the copy that follows the first ``skip`` bytes to the last kernel's end."""
    begun = 0
    for copy in sorted(copies, key=lambda copy: copy.start_us):
        if begun >= skip:
            return max(kernel.end_us for kernel in seen.kernels) - copy.start_us
        begun += copy.bytes
    return float("inf")


def _due_us(seen: Observation, nbytes: int, count: int) -> float:
    copy = _copy_us(nbytes)
    step = sum(k.end_us - k.start_us for k in seen.kernels if k.name in ("aten.mul", "aten.sum")) / count
    return _SLACK * ((count - 2) * max(copy, step) + copy + step)


def _raced(seen: Observation) -> str | None:
    return _named_race(seen.races[0]) if seen.races else None


def _named_race(race: Race) -> str:
    where = f" ({race.second_line})" if race.second_line else ""
    if race.reuse:
        return (
            f"Device memory was handed out again while another stream still used it{where}: the "
            "allocator knows only the stream that a tensor was made on, until record_stream tells it more."
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
    """Two buffers; half of another is left for results that come back to page-locked memory."""
    if type(pinned_bytes) is int and pinned_bytes <= (_HOST_BUFFERS + 0.5) * nbytes:
        return None
    return (
        "New page-locked memory was taken for every batch. pin_memory() allocates and copies; two "
        "buffers, filled again and again, do for any number of batches."
    )


def _too_much_on_device(peak_bytes: Any, nbytes: int) -> str | None:
    if type(peak_bytes) is int and nbytes < peak_bytes <= (_DEVICE_BATCHES + _STEP_BATCHES + 0.4) * nbytes:
        return None
    return (
        "More than three batches were on the device at once: the copies ran ahead of the steps, and "
        "nothing held them back."
    )


overlapped = Exercise(
    "transfers.overlapped",
    criteria=(
        Criterion("values", 2, "the results are right, in order, and can be read at once"),
        Criterion("hidden", 4, "copies from page-locked memory run while steps run", ("values",)),
        Criterion("races", 3, "every two uses of the same bytes are in order", ("values",)),
        Criterion("host_memory", 1, "two page-locked buffers do for any number of batches", ("values",)),
        Criterion("device_memory", 2, "at most three batches are on the device at a time", ("values",)),
        Criterion("edges", 1, "no batch, one batch and a shorter last batch are right", ("values",)),
    ),
    cases=_overlapped_cases,
    judge=_judge_overlapped,
)
