"""``structure``: some ranks of a job that is too large for this machine."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from gpulab.collectives.broker.clocks import Carrier
from gpulab.collectives.broker.mirror import Mirror
from gpulab.collectives.brokers import RankSockets, served_in_a_fork
from gpulab.collectives.rank.life import Task
from gpulab.collectives.run import Run, import_before_forking, network_for, print_line, run_of


def structure(
    fn: Callable[..., Any],
    world_size: int,
    *,
    ranks: Sequence[int] = (0,),
    args: tuple = (),
    card: str = "virtual",
    network: Carrier | None = None,
    backend: str | None = "nccl",
    timeout_s: float = 30.0,
    observe: bool = True,
    check: bool = True,
    show: Callable[[int, str], None] | None = None,
) -> Run:
    """Call ``fn(rank, world_size, *args)`` for ``ranks`` of a job of ``world_size``; the others are not there.

    Each other rank is taken to do as the one that asks, at the same time. So groups, meshes, shards, collectives, their
    bytes and their modelled times are those of the whole job as long as all ranks do alike. Values are not: what would
    come from another rank is this one's own. With ``card="ghost:H100"`` there are none at all, and models of any size run.

    The rest as :func:`gpulab.collectives.run_ranks`. ``results`` and ``seen`` are in the order of ``ranks``; the journal has
    an entry for each rank's own part. No deadlock and no disagreement can be found so. Raises ValueError for ranks that
    such a job has not.
    """
    numbers = tuple(ranks)
    if not numbers or len(set(numbers)) != len(numbers) or not all(0 <= rank < world_size for rank in numbers):
        raise ValueError(f"ranks {numbers} of a job of {world_size}")
    import_before_forking()
    began = time.monotonic()
    task = Task(fn, tuple(args), world_size, numbers, card, "broker", backend, observe, "")
    ends = _forked_mirror(numbers, world_size, network or network_for(world_size, card))
    run = run_of(task, ends, timeout_s, show or print_line, began)
    return run.checked() if check else run


def _forked_mirror(numbers: tuple[int, ...], world_size: int, network: Carrier) -> RankSockets:
    def serve(own: RankSockets) -> None:
        Mirror(dict(zip(numbers, own.ranks, strict=True)), world_size, own.supervisor, network).serve()

    return served_in_a_fork(len(numbers), serve)
