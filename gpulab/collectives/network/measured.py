"""From what NCCL counts on to what machines take: NCCL's estimate is for choosing a way, and is short of the time.

Three constants, fitted to five runs of others (``gpulab.cards.constants.FITTED``) and to nothing of the other runs.
"""

from math import sqrt

from gpulab.cards import constants as assumed


def duration_us(latency_us: float, transfer_us: float, crosses: bool, waits: bool) -> float:
    """Microseconds of a collective whose latencies and whose bytes take so long, by NCCL's own counting.

    crosses: whether it leaves a node. waits: whether it is sent in chunks that are waited for. Of those the first has gone
    all the way before the link is full; with chunks of the best size that costs twice the root of latency times transfer,
    and ``RAMP`` is what machines take of it.
    """
    latency_us += assumed.CROSSING_US if crosses else 0.0
    ramp = 2 * assumed.RAMP * sqrt(latency_us * transfer_us) if waits else 0.0
    return latency_us + transfer_us + ramp
