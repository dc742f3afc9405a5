"""E18.3 intensity: a bound and a crossover, judged by the counts that the function itself gave."""

from collections.abc import Iterator
from fractions import Fraction
from math import isfinite
from typing import Any

from autograder.judge.expect import type_name
from exercises.inference.intensity.cases import PARTS
from exercises.inference.intensity.expected import crossing, crossover, exact_crossing, expected, line_of, rates

_NEAR = Fraction(1, 10**9)
_FAR = 10**5
"""Times what is due: no misreading of a pass counts so much or so little."""


def has_parts(value: Any) -> bool:
    if not isinstance(value, dict) or not {*PARTS, "crossover"} <= set(value):
        return False
    return all(isinstance(value[part], dict) and _ENTRIES <= set(value[part]) for part in PARTS)


_ENTRIES = {"flops", "bytes", "intensity", "bound"}


def _count_problem(told: dict, right: tuple[int, int]) -> str | None:
    """Why nothing can be told by these counts."""
    counts = told["flops"], told["bytes"]
    if any(type(count) not in (int, float) or not isfinite(count) or count <= 0 for count in counts):
        return "A pass computes something and moves something: both counts are numbers above 0."
    if any(not count / _FAR <= own <= count * _FAR for own, count in zip(counts, right, strict=True)):
        return "The counts are not those of a pass of this size: the bound is to be told by them."
    return None


def bound_problem(question: dict, told: dict, right: tuple[int, int]) -> str | None:
    """By the counts that the function itself gave: those are judged elsewhere, and here must only be counts of such a pass."""
    flops, nbytes, told_ratio = told["flops"], told["bytes"], told["intensity"]
    if problem := _count_problem(told, right):
        return problem
    exact = Fraction(flops) / Fraction(nbytes)
    if type(told_ratio) is not float or not isfinite(told_ratio) or abs(Fraction(told_ratio) - exact) > _NEAR * exact:
        return "The intensity is not the part's FLOPs divided by its bytes."
    return _side_problem(question, told["bound"], Fraction(flops), Fraction(nbytes))


def _side_problem(question: dict, told: Any, flops: Fraction, nbytes: Fraction) -> str | None:
    peak, bandwidth = rates(question)
    computed, moved = flops / peak, nbytes / bandwidth
    if told == ("compute" if computed >= moved else "memory"):
        return None
    if computed == moved:
        return 'Where FLOPs and bytes take the same time, the bound is "compute".'
    return (
        f"A bound is wrong. By the part's own counts its FLOPs take {float(computed):.6g} s at the dense peak of `dtype`, and its "
        f"bytes {float(moved):.6g} s at the bandwidth of device memory: the bound is what takes longer."
    )


# ---- the crossover


def crossover_problem(question: dict, value: dict) -> str | None:
    right, told = crossover(question), value.get("crossover", "nothing")
    if told == right and type(told) is type(right):
        return None
    if type(told) in (int, type(None)) and any(told in _crossings(line, question) for line in _own_lines(question)):
        return None  # its counts, or the rates that it divides by, are judged elsewhere
    return _why_crossover(question, told, right)


def _own_lines(question: dict) -> Iterator[tuple]:
    """The function's FLOPs and bytes over the batch, where on one side of the crossing they or their bound are not the right ones."""
    if not all(map(has_parts, question["own"])):
        return
    (batch, more), told = (part["asked"][1] for part in question["parts"]), [own["linear"] for own in question["own"]]
    due = [expected(*part["asked"], question["config"])["linear"] for part in question["parts"]]
    if any(_count_problem(own, (right[0], own["bytes"])) for own, right in zip(told, due)):
        return
    if not any(
        bound_problem(question, own, right) or (own["flops"], own["bytes"]) != right for own, right in zip(told, due)
    ):
        return
    one, two = ([Fraction(own[key]) for key in ("flops", "bytes")] for own in told)
    flops, row = ((last - first) / (more - batch) for first, last in zip(one, two))
    at_once, weights = one[0] - batch * flops, one[1] - batch * row
    if flops > 0:
        yield at_once, flops, weights, row
        yield 0, at_once + flops, weights, row  # of one request, and as many times as there are


def _crossings(line: tuple, question: dict) -> Iterator[int | None]:
    """At any peak of the card and any bandwidth, and where no weights are left, from the first request on."""
    card = question["card"]
    peaks = {*card["dense"].values(), *card["sparse"].values()}
    for bandwidth in (card["bytes_per_s"], 2 * card["bytes_per_s"], card["link_bytes_per_s"]):
        yield from (crossing(line, peak, bandwidth) for peak in peaks)
    if line[2] <= 0:
        yield 0


def _why_crossover(question: dict, told: Any, right: int | None) -> str:
    if right is None:
        return _NEVER
    if type(told) is not int:
        return f"The crossover is {type_name(told)} where an integer is due: there is such a batch, however large."
    config, (phase, _, seq), (peak, bandwidth) = question["config"], question["asked"], rates(question)
    line = line_of(config)
    if abs(told - exact_crossing(line, peak, bandwidth)) <= 2:
        return "The crossover is next to the right batch: the smallest with which the FLOPs take as long as the bytes, or longer."
    if told == crossing(line_of(config, phase, seq), peak, bandwidth):
        return "That is the batch for the pass that was asked about: the crossover is of a decode pass, whatever that pass is."
    if abs(told - exact_crossing((*line[:3], 0), peak, bandwidth)) <= 2:
        return (
            "That is the batch by the bytes of the weights alone: each request's own inputs and outputs are bytes, too."
        )
    if told in _crossings(line, question):
        return "That is the batch at another peak or bandwidth than the dense peak of `dtype` and the bandwidth of device memory."
    return _CROSSOVER


_NEVER = (
    "Where a request's own row takes longer to move than to compute, no batch is large enough, however well the weights "
    "are shared: None is due."
)
_CROSSOVER = (
    "The crossover is wrong. The weights are moved once for the batch, inputs and outputs once for each request, and FLOPs "
    "are those of a decode pass, whatever the pass that was asked about: the smallest batch whose FLOPs take as long, at the "
    "dense peak."
)
