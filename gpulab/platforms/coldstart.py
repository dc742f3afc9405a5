"""A cold start as stages that wait for each other: when each begins and ends, and what would be saved by which improvement.

A load goes through several tiers in chunks, a chunk through one tier after the other, and every tier carries one chunk of a
load at a time: a pipeline. Loads do not disturb each other, as if each had the tier to itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

Tiers = Mapping[str, float]


@dataclass(frozen=True)
class Work:
    """A stage of so many seconds that begins when all stages in ``after`` are done."""

    name: str
    seconds: float
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Load:
    """A stage that moves bytes through the tiers of ``path``, in this order.

    ``chunk``: bytes of a chunk; None: all in one. ``needed``: bytes, from the first, that others wait for; None: all.
    """

    name: str
    nbytes: float
    path: tuple[str, ...]
    after: tuple[str, ...] = ()
    chunk: float | None = None
    needed: float | None = None


Stage = Work | Load


@dataclass(frozen=True)
class Timeline:
    """``spans``: begin and end of each stage, in seconds. ``saves``: seconds by which each tier, and each stage of work,
    would make all of it shorter if it took no time."""

    spans: dict[str, tuple[float, float]]
    critical: tuple[str, ...]
    saves: dict[str, float]

    @property
    def ready(self) -> float:
        return max(end for _, end in self.spans.values())

    @property
    def bottleneck(self) -> str:
        """What saves most; of several, the first."""
        return max(self.saves, key=self.saves.__getitem__)


def load_seconds(load: Load, tiers: Tiers) -> float:
    """Of the bytes that are needed, in closed form: all chunks but the last through the slowest tier, behind the first's way there."""
    wanted = load.nbytes if load.needed is None else load.needed
    if not wanted:
        return 0.0
    chunk = min(load.chunk or inf, wanted)
    whole = ceil(wanted / chunk) - 1
    last = wanted - whole * chunk
    rates = [tiers[name] for name in load.path]
    # A smaller last chunk overtakes nothing: on each tier it waits for the one before it, or comes later by itself.
    ends = [
        sum(chunk / rate for rate in rates[: hop + 1]) + (whole - 1) * chunk / min(rates[: hop + 1])
        for hop in range(len(rates))
    ]
    done = 0.0
    for hop, rate in enumerate(rates):
        done = max(done, ends[hop] if whole else 0.0) + last / rate
    return done


def seconds_of(stage: Stage, tiers: Tiers) -> float:
    return stage.seconds if isinstance(stage, Work) else load_seconds(stage, tiers)


def timeline(plan: Sequence[Stage], tiers: Tiers) -> Timeline:
    """When each stage of ``plan`` begins and ends. ``tiers``: bytes a second by name.

    Raises ValueError for stages that wait for each other or for one that is not there, and for a name that is there twice.
    """
    spans = _spans(plan, tiers)
    whole = max(end for _, end in spans.values())
    crossed = dict.fromkeys(name for stage in plan if isinstance(stage, Load) for name in stage.path)
    saves = {name: whole - _ready(plan, {**tiers, name: inf}) for name in crossed}
    for stage in plan:
        if isinstance(stage, Work):
            saves[stage.name] = whole - _ready(
                [one if one is not stage else Work(one.name, 0, one.after) for one in plan], tiers
            )
    return Timeline(spans, _critical(plan, spans), saves)


def _ready(plan: Sequence[Stage], tiers: Tiers) -> float:
    return max(end for _, end in _spans(plan, tiers).values())


def _spans(plan: Sequence[Stage], tiers: Tiers) -> dict[str, tuple[float, float]]:
    waiting, spans = {stage.name: stage for stage in plan}, {}
    if not plan or len(waiting) < len(plan):
        raise ValueError("a plan has a stage, and no two of one name")
    while waiting:
        free = [stage for stage in waiting.values() if all(name in spans for name in stage.after)]
        if not free:
            raise ValueError(f"{', '.join(waiting)} wait for each other, or for a stage that is not there")
        for stage in free:
            begin = max((spans[name][1] for name in stage.after), default=0.0)
            spans[stage.name] = (begin, begin + seconds_of(stage, tiers))
            del waiting[stage.name]
    return spans


def _critical(plan: Sequence[Stage], spans: dict[str, tuple[float, float]]) -> tuple[str, ...]:
    """From the last stage to end back to one that waits for none: each time to what it waited for longest."""
    after = {stage.name: stage.after for stage in plan}
    chain = [max(spans, key=lambda name: spans[name][1])]
    while after[chain[0]]:
        chain.insert(0, max(after[chain[0]], key=lambda name: spans[name][1]))
    return tuple(chain)
