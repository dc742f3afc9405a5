"""Jobs with and without a straggler, as their ranks' clocks and their cards' sensors show them."""

from collections.abc import Iterator
from typing import Any

from autograder.core.sampler import Sampler
from gpulab.fleet import delays, groups, step

LEAST_US = 5_000
SENSORS = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_UTIL")


class Watched:
    """A job whose steps are drawn one by one: everybody works about 200 ms, and then what is planted is added."""

    def __init__(self, sampler: Sampler, tp: int, replicas: int, steps: int) -> None:
        self.sampler, self.tp, self.ranks, self.steps = sampler, tp, tp * replicas, steps
        self.work = [[200_000 + sampler.integer(-900, 900) for _ in range(self.ranks)] for _ in range(steps)]
        self.behind = [[sampler.integer(0, 400) for _ in range(replicas)] for _ in range(steps)]
        self.holes: list[tuple[str, int, int]] = []
        self.hot = sampler.integer(0, self.ranks - 1)

    def late(self, rank: int, by: int, steps: Any = None) -> "Watched":
        """A rank works longer, in all steps or in some."""
        for s in range(self.steps) if steps is None else steps:
            self.work[s][rank] += by
        return self

    def question(self) -> dict:
        metrics = {"tp": self.tp, "least_us": LEAST_US, "tp_us": [], "dp_us": []}
        for work, behind in zip(self.work, self.behind, strict=True):
            transfer = (self.sampler.integer(3_000, 9_000), self.sampler.integer(20_000, 40_000))
            times = step(work, self.tp, transfer, behind)
            metrics["tp_us"].append([int(time) for time in times["tp"]])
            metrics["dp_us"].append([int(time) for time in times["dp"]])
        for kind, s, rank in self.holes:
            metrics[kind][s][rank] = None
        return {"metrics": metrics | self._sensors()}

    def _sensors(self) -> dict:
        """The hottest card, with the lowest clock, is :attr:`hot`; all are busy, since waiting in a collective is work to a sensor."""
        sampler = self.sampler
        temperature = [
            [sampler.integer(58, 70) + (18 if rank == self.hot else 0) for rank in range(self.ranks)]
            for _ in range(self.steps)
        ]
        clock = [
            [sampler.integer(1_900, 1_980) - (300 if rank == self.hot else 0) for rank in range(self.ranks)]
            for _ in range(self.steps)
        ]
        return dict(zip(SENSORS, (temperature, clock, [[100] * self.ranks for _ in range(self.steps)]), strict=True))


def due(metrics: dict) -> int | None:
    """The rank that is to be named: in both of its meetings it is, in the median step, what the others wait for."""
    meetings = groups(len(metrics["tp_us"][0]), metrics["tp"])
    held = [delays(metrics[f"{kind}_us"], meetings[kind]) for kind in meetings if len(meetings[kind][0]) > 1]
    found = [rank for rank, by in enumerate(map(min, zip(*held, strict=True))) if by >= metrics["least_us"]]
    (culprit,) = found or [None]
    return culprit


SHAPES = ((2, 4), (4, 4), (3, 5), (2, 8))
"""tp, and how many groups of it."""


def with_culprit(sampler: Sampler) -> Iterator[dict]:
    """In every shape a culprit, at either end of its group and inside; the hottest card is another one, or the culprit."""
    for tp, replicas in sampler.shuffled(*SHAPES):
        for place in sampler.shuffled(0, tp - 1):
            rank = sampler.integer(0, replicas - 1) * tp + place
            job = Watched(sampler, tp, replicas, sampler.integer(9, 14)).late(rank, sampler.integer(12_000, 60_000))
            job.hot = sampler.choice([other for other in range(job.ranks) if other != rank])
            yield job.question()
    job = Watched(sampler, 2, 4, 9).late(0, 30_000)
    yield job.question()
    yield from _two_slow_ranks(sampler)


def _two_slow_ranks(sampler: Sampler) -> Iterator[dict]:
    """Another rank is slow too, in another group, and less so: taking it away would gain nothing; the first one is named."""
    tp, replicas = sampler.choice(SHAPES)
    one, other = sampler.integer(0, tp - 1), tp * (replicas - 1) + sampler.integer(0, tp - 1)
    for worse, better in sampler.shuffled((one, other), (other, one)):
        yield (
            Watched(sampler, tp, replicas, 11)
            .late(worse, 50_000)
            .late(better, sampler.integer(20_000, 35_000))
            .question()
        )


def with_one_meeting(sampler: Sampler) -> Iterator[dict]:
    """tp is 1, or all ranks: the other meeting is of one rank and says nothing."""
    for tp, replicas in sampler.shuffled((1, 6), (6, 1), (1, 2), (2, 1), (1, 16)):
        ranks = tp * replicas
        yield (
            Watched(sampler, tp, replicas, sampler.integer(7, 12))
            .late(sampler.integer(0, ranks - 1), sampler.integer(8_000, 40_000))
            .question()
        )
    for tp, replicas in sampler.shuffled((1, 6), (6, 1), (1, 1)):
        yield Watched(sampler, tp, replicas, 9).question()


def with_noise(sampler: Sampler) -> Iterator[dict]:
    """Spikes, first and last steps, holes, culprits of most steps, of half of them and of fewer."""
    for when in sampler.shuffled("first", "last", "middle"):
        for healthy in (False, True):
            steps = sampler.integer(9, 13)
            job = Watched(sampler, *sampler.choice(SHAPES), steps)
            rank = sampler.integer(1, job.ranks - 1)
            spike = {"first": 0, "last": steps - 1, "middle": sampler.integer(2, steps - 3)}[when]
            job.late(0, sampler.integer(4_000_000, 9_000_000), [spike])
            if not healthy:
                job.late(rank, sampler.integer(10_000, 30_000))
            yield job.question()
    for share in sampler.shuffled(0.3, 0.45, 0.55, 0.8):
        job = Watched(sampler, *sampler.choice(SHAPES), 20)
        yield job.late(
            sampler.integer(0, job.ranks - 1), 40_000, sampler.permutation(range(20))[: int(20 * share)]
        ).question()
    yield _of_half(sampler)
    yield from _with_holes(sampler)


def _of_half(sampler: Sampler) -> dict:
    """In half of an even number of steps: the median is between the two middle ones."""
    job = Watched(sampler, *sampler.choice(SHAPES), 10)
    return job.late(sampler.integer(0, job.ranks - 1), 60_000, sampler.permutation(range(10))[:5]).question()


def _with_holes(sampler: Sampler) -> Iterator[dict]:
    """Samples that were not taken: of a healthy rank, all of one rank's, and where they decide the median."""
    for kind in sampler.shuffled("tp_us", "dp_us"):
        job = Watched(sampler, *sampler.choice(SHAPES), 11)
        job.holes = [(kind, s, sampler.integer(0, job.ranks - 1)) for s in sampler.permutation(range(11))[:4]]
        yield job.late(sampler.integer(0, job.ranks - 1), 25_000).question()
    for kind in sampler.shuffled("tp_us", "dp_us"):
        job = Watched(sampler, *sampler.choice(SHAPES), 9)
        job.holes = [(kind, s, job.ranks - 1) for s in range(9)]
        yield job.question()
        job = Watched(sampler, 2, 4, 9)
        slow = sampler.integer(0, 7)
        # The steps in which it is late are those that were not measured: what is left says that it is well.
        for s in range(5):
            job.late(slow, 50_000, [s])
            job.holes.append((kind, s, slow))
        yield job.question()
        job = Watched(sampler, *sampler.choice(SHAPES), 9)
        slow = sampler.integer(0, job.ranks - 1)
        job.holes = [(kind, s, slow) for s in range(9)]
        yield job.late(slow, 30_000).question()
    yield from _with_holes_elsewhere(sampler)


def _with_holes_elsewhere(sampler: Sampler) -> Iterator[dict]:
    """Every step has a hole of another group; and of two that are late together one is never measured."""
    tp, replicas = sampler.choice(SHAPES)
    job = Watched(sampler, tp, replicas, 9)
    slow = sampler.integer(0, replicas - 2) * tp
    job.holes = [(kind, s, job.ranks - 1) for kind in ("tp_us", "dp_us") for s in range(9)]
    yield job.late(slow, 30_000).question()
    job = Watched(sampler, 4, 4, 9)
    job.holes = [("tp_us", s, 5) for s in range(9)]
    yield job.late(5, 40_000).late(6, 40_000).question()


def without_culprit(sampler: Sampler) -> Iterator[dict]:
    """Nobody; a whole group; a group slower than the one with the late rank; one early rank; two late together; too little, and just enough."""
    for tp, replicas in sampler.shuffled(*SHAPES):
        yield Watched(sampler, tp, replicas, 9).question()
        job = Watched(sampler, tp, replicas, 9)
        slow = sampler.integer(0, replicas - 1)
        for behind in job.behind:
            behind[slow] += 30_000
        yield job.question()
    tp, replicas = sampler.choice(SHAPES)
    job = Watched(sampler, tp, replicas, 9).late(sampler.integer(0, tp - 1), 20_000)
    for behind in job.behind:
        behind[-1] += 60_000
    yield job.question()
    for tp, replicas in sampler.shuffled((1, 8), (4, 2), (8, 1)):
        job = Watched(sampler, tp, replicas, 9)
        yield job.late(sampler.integer(0, job.ranks - 1), -50_000).question()
    tp, replicas = sampler.choice(((2, 4), (4, 4)))
    yield Watched(sampler, tp, replicas, 9).late(0, 40_000).late(1, 40_000).question()
    yield Watched(sampler, tp, replicas, 9).late(0, 40_000).late(tp, 40_000).question()
    yield from _around_the_least(sampler)


def _around_the_least(sampler: Sampler) -> Iterator[dict]:
    for by in sampler.shuffled(LEAST_US - 1, LEAST_US, LEAST_US + 1):
        job = Watched(sampler, *sampler.choice(SHAPES), 9)
        job.work, job.behind = [[200_000] * job.ranks for _ in job.work], [[0] * len(row) for row in job.behind]
        yield job.late(sampler.integer(0, job.ranks - 1), by).question()


def refused(sampler: Sampler) -> Iterator[dict]:
    """No step; steps of unequal length, or not as many of one as of the other; tp that does not divide, and none."""
    tp, replicas = sampler.choice(SHAPES)
    sound = Watched(sampler, tp, replicas, 6).late(1, 30_000).question()["metrics"]
    ranks = tp * replicas
    for change in (
        {"tp_us": [], "dp_us": []},
        {"tp_us": sound["tp_us"][:-1]},
        {"dp_us": sound["dp_us"][1:]},
        {"tp_us": [*sound["tp_us"][:-1], sound["tp_us"][-1][:-1]]},
        {"dp_us": [sound["dp_us"][0] + [30_000], *sound["dp_us"][1:]]},
        {"tp": ranks + 1},
        {"tp": 0},
        {"tp": -tp},
        {"tp": next(n for n in range(2, ranks) if ranks % n)},
    ):
        yield {"metrics": sound | change}
