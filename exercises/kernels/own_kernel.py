"""Whether a result is the work of the learner's own kernel, and what that kernel did to memory."""

from collections.abc import Callable, Iterator

import torch

from autograder.core.exercise import Case, Failure
from autograder.judge.expect import error_problem, tensor_problem, type_name
from autograder.judge.own_work import UNWRITTEN, ZEROS, own_work_problem
from gpulab import Observation
from gpulab.observe.launches import ArrayUse, Fault, Launch, ThreadRace
from gpulab.units import plural

Problem = Callable[[Case, dict, Observation], str | None]


def judge_own(problems: dict[str, Problem], edge: str = "") -> Callable[[Case, dict], Iterator[Failure]]:
    """A judge by criterion, for results that kernels of the learner's own have to compute.

    A result that they did not compute loses every criterion of the case. Where the case is
    ``raises``, that exception is expected. ``edge``: the criterion that alone is lost where a kernel
    leaves a part of the result unwritten, in cases that are about it.
    """

    def judge(case: Case, evidence: dict) -> Iterator[Failure]:
        if case.raises:
            problem = error_problem(evidence, case.raises, case.because)
            yield from (Failure(criterion, problem) for criterion in case.criteria if problem)
            return
        seen = Observation.from_dict(evidence["seen"])
        foreign = own_problem(evidence, seen)
        if edge in case.criteria and foreign == UNWRITTEN:
            yield Failure(edge, _unreached(evidence, seen))
            return
        if foreign == UNWRITTEN:
            foreign = _unreached(evidence, seen)
        for criterion in case.criteria:
            if problem := foreign or problems[criterion](case, evidence, seen):
                yield Failure(criterion, problem)

    return judge


def _unreached(evidence: dict, seen: Observation) -> str:
    """What to say of a result that was written in part: whether stores missed it, or its size, which tells what was not reached."""
    stores = [fault for launch in seen.launches for fault in outside(launch) if "store" in fault.line.text]
    if stores:
        return (
            f"`{stores[0].line.text:.80}` stores outside of {stores[0].array}, and elements of it are left unwritten: a store "
            "goes by the shape and strides of the tensor that is written."
        )
    shape = tuple(evidence["result"].shape)
    return f"Elements of a result of shape {shape} are left unwritten: the programs and their tiles do not cover it."


def own_problem(evidence: dict, seen: Observation) -> str | None:
    """Why the result was not computed by kernels of the learner's own, or None when it was."""
    result = evidence["result"]
    if not isinstance(result, torch.Tensor):
        return f"The function returned {result if isinstance(result, str) else type_name(result)}; expected a tensor on the card."
    if problem := own_work_problem(evidence, seen, result.nbytes, ZEROS):
        return problem
    if not all(_arrays_agree(launch) for launch in seen.launches):
        return "The record of the launches contradicts itself: was gpulab changed in the notebook?"
    return None


def _arrays_agree(launch: Launch) -> bool:
    """What its lines asked for is what its arrays were asked, but for what lay outside them."""
    asked, inside = launch.total("read_bytes") + launch.total("written_bytes"), sum(launch.moved_bytes)
    return asked == inside or bool(launch.faults) and asked > inside


def outside(launch: Launch) -> list[Fault]:
    """Its faults, without lanes that a mask kept inside and whose value was used all the same."""
    return [fault for fault in launch.faults if fault.kind != "masked lane used"]


def fault_problem(seen: Observation) -> str | None:
    """An access outside an array, or a race, in the first launch that has one."""
    for launch in seen.launches:
        for fault in outside(launch):
            return (
                f"{fault.kind}: `{fault.line.text:.80}` uses {plural(fault.count, 'element')} that {fault.array} does "
                "not have: a tile reaches over the edge, and a mask has to switch those lanes off."
            )
        for race in launch.races:
            return f"{race.kind} at `{race.second_line.text:.80}`: {_who_races(race)}."
    return None


def _who_races(race: ThreadRace) -> str:
    """Two programs, or one: its load of what another place of a tile stored, or two lanes of its store."""
    if race.first_thread != race.second_thread:
        return f"two programs use one element of {race.array}"
    if race.kind == "read after write":
        return (
            f"it loads an element of {race.array} that the same program stored at another place of a tile, and no "
            "`tl.debug_barrier()` stands between the two"
        )
    return f"two lanes of one store write different values to one element of {race.array}"


def use_of(seen: Observation, written: bool, nbytes: int) -> list[ArrayUse]:
    """What the launches did to arrays that they wrote (or only read) of that many bytes."""
    return [
        use
        for launch in seen.launches
        for use in launch.arrays
        if bool(use.written_bytes) == written and use.bytes == nbytes
    ]


def launches_problem(seen: Observation) -> str | None:
    if seen.computing_ops:
        return f"The result is filled before the kernel runs ({seen.computing_ops[0]}): that is one launch more, and writes it twice."
    if len(seen.launches) == 1:
        return None
    return f"{plural(len(seen.launches), 'kernel')} launched: one is enough, and what goes from one to the next goes through memory."


def written_once_problem(seen: Observation, result: torch.Tensor) -> str | None:
    """Why the result was not written once, element by element, and never read."""
    if problem := in_memory_problem(seen):
        return problem
    written = sum(use.written_bytes for launch in seen.launches for use in launch.arrays)
    if written != result.nbytes:
        return "More is written than the result: an intermediate result goes through global memory."
    return None


def in_memory_problem(seen: Observation) -> str | None:
    """An array that is read as well as written, or written twice in one place."""
    for launch in seen.launches:
        for use in launch.arrays:
            if use.written_bytes and use.read_bytes:
                return (
                    f"{use.array} is read as well as written: keep partial sums in registers until they are complete."
                )
            if use.written_bytes > use.distinct_written_bytes:
                return f"Elements of {use.array} are written more than once."
    return None


def values_problem(
    found: torch.Tensor, expected: torch.Tensor, tolerance: float, what: str, absolute: float | None = None
) -> str | None:
    """expected: float64, in the result's shape. ``tolerance``: relative, and ``absolute`` where that is not given."""
    if problem := tensor_problem(found, expected.to(found.dtype) if isinstance(found, torch.Tensor) else expected):
        return problem
    if torch.allclose(found.double(), expected, tolerance, tolerance if absolute is None else absolute):
        return None
    return what


def own_memory_problem(evidence: dict) -> str | None:
    """Why the result is no new contiguous tensor, or None when it is."""
    if evidence["is_an_input"]:
        return "The result lies in the memory of an input: expected a new tensor, also where there are no rows."
    if evidence["handed_out_twice"]:
        return "A second call returns the memory that the first result is still in: each result is a tensor of its own."
    return (
        None
        if evidence["contiguous"]
        else "The result is not contiguous: its rows are not one behind the other in memory."
    )
