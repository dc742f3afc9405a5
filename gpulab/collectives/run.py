"""``run_ranks``: a function in many processes, each with a card of its own."""

import importlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from gpulab.collectives import processes
from gpulab.collectives.broker.clocks import Carrier
from gpulab.collectives.brokers import Connect, RankSockets, connected
from gpulab.collectives.errors import RankError
from gpulab.collectives.journal import Entry, table
from gpulab.collectives.network import Network
from gpulab.collectives.rank.life import Task
from gpulab.collectives.rank.result import unpacked
from gpulab.collectives.rank.transports import TRANSPORTS
from gpulab.observe import Observation

_SYSTEM = "DGX H100"
_SYSTEMS = {f"{kind}:A100": "DGX A100" for kind in ("virtual", "ghost")}


@dataclass
class Run:
    """What the ranks did.

    results: what the function returned, by rank; device tensors come as host tensors. None of a rank that did
    not return. seen: each rank's :class:`gpulab.Observation`, from before the function to after it; None of a
    rank that did not return, and with ``observe=False``. journal: what crossed, as the broker saw it, in
    the order of modelled time; empty where another transport carried it. error: what went wrong, if anything.
    seconds: of real time, from the call to the end of the last process.
    """

    results: list[Any]
    seen: list[Observation | None]
    journal: tuple[Entry, ...]
    error: RankError | None
    seconds: float

    def checked(self) -> "Run":
        """The run itself. Raises its error, if there is one."""
        if self.error is not None:
            raise self.error
        return self

    def table(self) -> str:
        """The journal, a row for each entry."""
        return table(self.journal)

    def __repr__(self) -> str:
        return self.table() if self.error is None else f"{self.error}\n\n{self.table()}"


def run_ranks(
    fn: Callable[..., Any],
    world_size: int,
    *,
    args: tuple = (),
    card: str = "virtual",
    transport: str = "broker",
    network: Carrier | None = None,
    backend: str | None = "nccl",
    timeout_s: float = 30.0,
    observe: bool = True,
    check: bool = True,
    show: Callable[[int, str], None] | None = None,
    broker: Connect | None = None,
    plain: bool = False,
) -> Run:
    """Call ``fn(rank, world_size, *args)`` in ``world_size`` processes at once.

    They are forked from this one, so ``fn`` may be a notebook's function or a closure, and what it changes stays
    in its process. Each has a fresh card, as :func:`gpulab.cuda.use` makes of ``card`` (``"off"``: none), a clock that
    begins at 0, one thread, and the environment that torchrun gives (``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``).

    backend: the default process group is there when ``fn`` begins; None leaves ``init_process_group`` to ``fn``,
    as an ordinary script has it. transport: ``"broker"`` carries and journals all bytes under the names of NCCL
    and gloo and finds deadlocks at once; ``"gloo"`` is gloo itself (values only: no journal, no modelled times);
    ``"nccl"`` is NCCL, with ``card="real"`` and a GPU for each rank (no test has run it: that takes two GPUs). network: what collectives take in modelled time,
    a :class:`gpulab.collectives.network.Network` or anything with its ``duration_us``; None: as many machines as
    the ranks need, DGX A100 for a virtual A100 and DGX H100 for any other card.

    show: is given each line that a rank prints, ``(rank, line)``; otherwise it is printed here after ``[rank 1]``.
    broker: where the broker comes from, :mod:`gpulab.collectives.brokers`. plain: ``fn`` returns bytes; anything else
    is None, and no result is unpickled.

    Raises RankError within ``timeout_s`` real seconds (and a fraction) when a rank raises, dies, hangs or disagrees with
    others; with ``check=False`` it is in the :class:`Run`. No process is left behind. Raises ValueError for fewer than
    one rank or an unknown transport, RuntimeError where NCCL has too few GPUs.
    """
    _check(world_size, card, transport)
    import_before_forking()
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory()) if transport != "broker" else ""
        task = Task(fn, tuple(args), world_size, tuple(range(world_size)), card, transport, backend, observe, folder)
        carrier = network or network_for(world_size, card)
        run = run_of(task, (broker or connected)(world_size, carrier), timeout_s, show or print_line, began, plain)
    return run.checked() if check else run


def run_of(
    task: Task, ends: RankSockets, timeout_s: float, show: Callable[[int, str], None], began: float, plain: bool = False
) -> Run:
    """Run ``task`` over the broker at the other ends, and unpack what came back."""
    outcome = processes.supervise(task, ends, timeout_s, show)
    if ends.pid is not None:
        os.waitpid(ends.pid, 0)
    journal = tuple(sorted(outcome.journal, key=lambda e: (e.start_us, e.end_us, e.ranks, e.order)))
    results = [unpacked(outcome.results[rank], plain) if rank in outcome.results else None for rank in task.ranks]
    seen = [
        Observation.from_dict(json.loads(outcome.seen[rank])) if rank in outcome.seen else None for rank in task.ranks
    ]
    error = None if outcome.problem is None else RankError(outcome.problem, journal)
    return Run(results, seen, journal, error, time.monotonic() - began)


def network_for(world_size: int, card: str) -> Network:
    """As many machines as the ranks need, of the kind that ``card`` is put into."""
    return Network.for_ranks(world_size, _SYSTEMS.get(card, _SYSTEM))


def import_before_forking() -> None:
    """What ranks need is imported once: an optimizer imports all of ``torch._dynamo`` when it is first used."""
    for name in ("gpulab.compat.dynamo", "gpulab.cuda.device.install"):
        importlib.import_module(name)


def _check(world_size: int, card: str, transport: str) -> None:
    if world_size < 1:
        raise ValueError(f"{world_size} ranks are none")
    if transport not in TRANSPORTS:
        raise ValueError(f"transport={transport!r}: say {', '.join(map(repr, TRANSPORTS))}")
    if transport == "nccl":
        _check_gpus(world_size, card)


def _check_gpus(world_size: int, card: str) -> None:
    if card != "real" or not dist.is_nccl_available() or torch.cuda.device_count() < world_size:
        raise RuntimeError(f"NCCL wants card='real' and {world_size} GPUs; transport='broker' needs none")
    if torch.cuda.is_initialized():
        raise RuntimeError("this process has used its GPU, and such a process cannot be forked: restart the kernel")


def print_line(rank: int, line: str) -> None:
    print(f"[rank {rank}] {line}", flush=True)
