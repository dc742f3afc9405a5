"""Whether a result is the work of the learner's own kernel, and what that kernel did to memory."""

from collections.abc import Callable, Iterator

import torch

from autograder.exercise import Case, Lost
from autograder.verdicts.expect import error_problem, tensor_problem, type_name
from gpulab import Observation
from gpulab.observe.launches import ArrayUse, Launch
from gpulab.units import plural


Problem = Callable[[Case, dict, Observation], str | None]


def judge_own(problems: dict[str, Problem]) -> Callable[[Case, dict], Iterator[Lost]]:
    """A judge by criterion, for results that kernels of the learner's own have to compute.

    A result that they did not compute loses every criterion of the case. Where the case is
    ``refused``, a ValueError is due.
    """

    def judge(case: Case, evidence: dict) -> Iterator[Lost]:
        if case.inputs.get("refused"):
            problem = error_problem(evidence, "ValueError")
            yield from (Lost(criterion, problem) for criterion in case.about if problem)
            return
        seen = Observation.from_dict(evidence["seen"])
        foreign = own_problem(evidence, seen)
        for criterion in case.about:
            if problem := foreign or problems[criterion](case, evidence, seen):
                yield Lost(criterion, problem)

    return judge


def own_problem(evidence: dict, seen: Observation) -> str | None:
    """Why the result was not computed by kernels of the learner's own, or None when it was."""
    if not isinstance(evidence["result"], torch.Tensor):
        found = evidence["result"]
        return f"The function returned {found if isinstance(found, str) else type_name(found)}; a tensor on the card is due."
    if evidence["tampered"]:
        return f"The launches are not believed: {str(evidence['tampered']):.100}."
    if seen.computing_ops:
        return f"PyTorch did work of its own ({seen.computing_ops[0]}): the kernel is to do it, and its output comes from torch.empty."
    if seen.copies or seen.waits:
        return "Values went to the host, or the host waited for them: the kernel is to do the work, on the card."
    if evidence["result"].numel() and not seen.launches:
        return "No kernel of your own was launched."
    if not _kernels_agree(seen):
        return "The record of the launches is not that of the card's kernels: was gpulab changed in the notebook?"
    by_launch, by_torch, by_others = evidence["authors"]
    if by_torch or by_others or by_launch != evidence["result"].nbytes:
        return "A part of the result was not written by a kernel of yours."
    return None


def _kernels_agree(seen: Observation) -> bool:
    """Every launch is one kernel on the card, with the same bytes and flops, line by line and array by array."""
    launched = [
        (launch.name, _moved(launch, "read"), _moved(launch, "written"), launch.total("flops"))
        for launch in seen.launches
    ]
    ran = [(kernel.name, kernel.bytes_read, kernel.bytes_written, kernel.flops) for kernel in seen.kernels]
    return launched == ran and all(_arrays_agree(launch) for launch in seen.launches)


def _moved(launch: Launch, verb: str) -> int:
    return sum(getattr(use, f"{verb}_bytes") for use in launch.arrays)


def _arrays_agree(launch: Launch) -> bool:
    """What its lines asked for is what its arrays were asked, but for what lay outside them."""
    asked = launch.total("read_bytes") + launch.total("written_bytes")
    inside = _moved(launch, "read") + _moved(launch, "written")
    return asked == inside or bool(launch.faults) and asked > inside


def fault_problem(seen: Observation) -> str | None:
    """An access outside an array, or a race, in the first launch that has one."""
    for launch in seen.launches:
        for fault in launch.faults:
            return (
                f"{fault.kind}: `{fault.line.text:.80}` uses {plural(fault.count, 'element')} that {fault.array} does "
                "not have: a tile reaches over the edge, and a mask has to switch those lanes off."
            )
        for race in launch.races:
            return f"{race.kind} at `{race.second_line.text:.80}`: two programs use one element of {race.array}."
    return None


def use_of(seen: Observation, written: bool, nbytes: int) -> list[ArrayUse]:
    """What the launches did to arrays that they wrote (or only read) of that many bytes."""
    return [
        use
        for launch in seen.launches
        for use in launch.arrays
        if bool(use.written_bytes) == written and use.bytes == nbytes
    ]


def launches_problem(seen: Observation) -> str | None:
    if len(seen.launches) == 1:
        return None
    return f"{plural(len(seen.launches), 'kernel')} launched: one is enough, and what goes from one to the next goes through memory."


def written_once_problem(seen: Observation, result: torch.Tensor) -> str | None:
    """Why the result was not written once, element by element, and never read."""
    for launch in seen.launches:
        for use in launch.arrays:
            if use.written_bytes and use.read_bytes:
                return f"{use.array} is read as well as written: what is summed up belongs in registers until it is done."
            if use.written_bytes > use.distinct_written_bytes:
                return f"Elements of {use.array} are written more than once."
    written = sum(use.written_bytes for launch in seen.launches for use in launch.arrays)
    if written != result.nbytes:
        return "More is written than the result: an intermediate goes through memory."
    return None


def values_problem(found: torch.Tensor, due: torch.Tensor, tolerance: float, what: str) -> str | None:
    """due: float64, in the result's shape. ``tolerance``: absolute and relative."""
    if problem := tensor_problem(found, due.to(found.dtype) if isinstance(found, torch.Tensor) else due):
        return problem
    if torch.allclose(found.double(), due, tolerance, tolerance):
        return None
    return what
