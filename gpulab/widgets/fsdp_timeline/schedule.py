"""One training step of FSDP as an order of events, and what every rank holds at each: structure alone, no times.

The order of collectives is the one of PyTorch's ``fully_shard``, and so is what the backward pass holds with prefetch. In the
forward pass ``fully_shard`` holds up to two units more: the buffer of a collective, and one that is gathered further ahead.
"""

from collections.abc import Iterator
from dataclasses import dataclass

Sends = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Event:
    """What goes on at the same time in every rank. Units are numbered in the order of the forward pass.

    compute: "forward", "backward" or "update" with its unit, -1 for all of them; None where nothing is computed.
    sends: ("all_gather" or "reduce_scatter", unit) of each collective. frees: the unit whose gathered weights are let go.
    """

    compute: tuple[str, int] | None = None
    sends: Sends = ()
    frees: int | None = None


@dataclass(frozen=True)
class Moment:
    """An event, and what a rank holds while it goes on, beside its shards of the weights.

    whole: units whose weights are there unsharded. gradients: units whose own, unsharded gradients are there.
    summed: units of whose summed gradients the rank has, or gets, its shard. replica: how many units' gradients a rank
    of DDP holds by then.
    """

    event: Event
    whole: tuple[int, ...]
    gradients: tuple[int, ...]
    summed: tuple[int, ...]
    replica: int


def events(units: int, reshard: bool, prefetch: bool) -> Iterator[Event]:
    """A step in order. Raises ValueError for no units.

    reshard: weights are freed after the forward pass too, and gathered again. prefetch: while a unit is computed, the next
    one is gathered and the gradients of the one before are summed.
    """
    if units < 1:
        raise ValueError(f"{units} units; expected at least one")
    yield from _forward(units, reshard, prefetch)
    yield from _backward(units, reshard, prefetch)
    yield Event(("update", -1))


def _forward(units: int, reshard: bool, prefetch: bool) -> Iterator[Event]:
    for unit in range(units):
        if unit == 0 or not prefetch:
            yield Event(sends=(("all_gather", unit),))
        ahead = prefetch and unit + 1 < units
        yield Event(("forward", unit), (("all_gather", unit + 1),) if ahead else ())
        if reshard:
            yield Event(frees=unit)


def _backward(units: int, reshard: bool, prefetch: bool) -> Iterator[Event]:
    for unit in reversed(range(units)):
        first = unit == units - 1
        if reshard and (first or not prefetch):
            yield Event(sends=(("all_gather", unit),))
        before = (("reduce_scatter", unit + 1),) if prefetch and not first else ()
        ahead = (("all_gather", unit - 1),) if prefetch and reshard and unit else ()
        yield Event(("backward", unit), before + ahead)
        yield Event(frees=unit)
        if unit == 0 or not prefetch:
            yield Event(sends=(("reduce_scatter", unit),))


def moments(units: int, reshard: bool, prefetch: bool) -> list[Moment]:
    """Every event in order, with what is held; raises as :func:`events`."""
    whole, gradients, summed, computed, found = set(), set(), set(), set(), []
    for event in events(units, reshard, prefetch):
        scattered = {unit for kind, unit in event.sends if kind == "reduce_scatter"}
        whole |= {unit for kind, unit in event.sends if kind == "all_gather"}
        summed |= scattered
        if event.compute and event.compute[0] == "backward":
            gradients.add(event.compute[1])
            computed.add(event.compute[1])
        whole.discard(event.frees)
        held = (tuple(sorted(some)) for some in (whole, gradients, summed))
        found.append(Moment(event, *held, replica=len(computed)))
        gradients -= scattered
    return found


def live(moment: Moment, units: int, ranks: int) -> float:
    """Weights and gradients that a rank holds, in units: its shards, and what is whole."""
    return (units + len(moment.summed)) / ranks + len(moment.whole) + len(moment.gradients)


def sent(found: list[Moment], ranks: int) -> float:
    """Units that each rank sends in these moments, by rings."""
    return sum(len(moment.event.sends) for moment in found) * (ranks - 1) / ranks
