"""Many ranks on one machine: real processes, real tensors, counted bytes.

>>> from gpulab.collectives import run_ranks
>>> run = run_ranks(step, 4)  # doctest: +SKIP
>>> print(run.table())  # doctest: +SKIP

Ordinary ``torch.distributed`` scripts run unchanged, under ``init_process_group("nccl")``. Bytes and their order are
facts, counted where they pass: in the broker, a process apart. Times are modelled: the clocks of the ranks meet at
collectives. What a rank sees is its :class:`gpulab.Observation`; what crossed is the run's journal.

What crosses costs what :mod:`gpulab.collectives.network` says it does on real links. What the model leaves out: a
message waits for its receiver, whatever its size; collectives of different communicators do not slow each other; the
memory and the multiprocessors that NCCL takes for itself.
"""

from gpulab.collectives.broker.clocks import Carrier, Instant
from gpulab.collectives.brokers import brokers_from
from gpulab.collectives.errors import Problem, RankError
from gpulab.collectives.journal import Entry
from gpulab.collectives.network import Network
from gpulab.collectives.run import Run, run_ranks
from gpulab.collectives.structure import structure

__all__ = [
    "Carrier",
    "Entry",
    "Instant",
    "Network",
    "Problem",
    "RankError",
    "Run",
    "brokers_from",
    "run_ranks",
    "structure",
]
