"""What a schedule costs: slots, idle GPUs, activations that wait for their backward pass."""

from gpulab.parallel.actions import Table, places


def slots(table: Table) -> int:
    """Until the last action has run."""
    return max((place.slot + 1 for _, place in places(table)), default=0)


def idle_share(table: Table) -> float:
    """Of all GPUs' slots, those in which nothing runs: the bubble. 0 for a table without actions."""
    total = slots(table) * len(table)
    return 1 - sum(1 for _ in places(table)) / total if total else 0.0


def in_flight(table: Table) -> list[list[int]]:
    """For each GPU and slot, how many activations of one stage and microbatch it holds while that slot runs.

    One is held from the slot of its forward pass to that of its backward pass, of the weights' half where it has halves.
    """
    last, rows = slots(table), [[0] * slots(table) for _ in table]
    begins = {(a.stage, a.microbatch, place.gpu): place.slot for a, place in places(table) if a.kind == "F"}
    ends = {(a.stage, a.microbatch, place.gpu): place.slot for a, place in places(table) if a.kind in "BW"}
    for held, begin in begins.items():
        for slot in range(begin, ends.get(held, last - 1) + 1):
            rows[held[2]][slot] += 1
    return rows


def most_in_flight(table: Table) -> list[int]:
    """For each GPU the most activations that it holds at once."""
    return [max(row, default=0) for row in in_flight(table)]
