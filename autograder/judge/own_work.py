"""Whether a result was computed by the learner's own kernels."""

from collections.abc import Collection

from gpulab import Observation

ZEROS = ("aten.zeros", "aten.zero_", "aten.zeros_like", "aten.new_zeros")
"""PyTorch's operations that fill a tensor with zeros, and carry nothing into it."""

UNWRITTEN = "A part of the result was not written by a kernel of yours."


def own_work_problem(evidence: dict, seen: Observation, nbytes: int, prepares: Collection[str] = ()) -> str | None:
    """Why a result of ``nbytes`` bytes is not the work of kernels of the learner's own, or None.

    evidence: with what ``kernels_ran.work_of`` found. prepares: PyTorch's operations that may
    come before a kernel, to fill a result that it adds to.
    """
    if evidence["tampered"]:
        return (
            f"The record of the launches cannot be trusted: {str(evidence['tampered']):.100}. Was gpulab "
            "changed in the notebook?"
        )
    if foreign := [op for op in seen.computing_ops if op not in prepares]:
        return f"PyTorch did a part of the work ({foreign[0]}): a kernel of yours is to do all of it."
    if seen.copies:
        return f"A tensor was copied ({seen.copies[0].kind}): the data is on the device, and the work is done there."
    if evidence["strange"]:
        return (
            f"A kernel reads `{str(evidence['strange']):.30}`, which is neither an input, as it was handed over, nor what a "
            "kernel of yours wrote."
        )
    if not nbytes:
        return None
    if not seen.launches:
        return "No kernel was launched: a kernel of yours is to do the work."
    if not _card_agrees(seen, prepares):
        return "The record of the launches is not that of the kernels which ran on the card."
    if evidence["kernel_bytes"] != nbytes:
        return UNWRITTEN
    return None


def _card_agrees(seen: Observation, prepares: Collection[str]) -> bool:
    """Every launch is one kernel on the card, and the card, which keeps its own count, saw it do the same."""
    ran = [kernel for kernel in seen.kernels if kernel.name not in prepares]
    counted = [(kernel.name, (kernel.bytes_read, kernel.bytes_written), kernel.flops) for kernel in ran]
    return counted == [(launch.name, launch.moved_bytes, launch.total("flops")) for launch in seen.launches]
