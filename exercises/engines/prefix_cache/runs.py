"""Runs of the engine as traces of what it asks its allocator."""

from autograder.core.sampler import Sampler
from exercises.engines.prefix_cache.model import Script, Unclear
from gpulab.serving import Budget, Chunked, Continuous, Engine, Linear, Live, Request


class Asking:
    """An allocator that notes in a script what the engine asks it, and answers what is due."""

    shares = True

    def __init__(self, script: Script) -> None:
        self._script, self._model, self._lives = script, script.models[0], {}
        self.total, self.size = script.caches[0]

    free = property(lambda self: self._model.free)

    def found(self, live: Live) -> int:
        return self._script.found(self._number(live))

    def reserve(self, live: Live, tokens: int) -> bool:
        number = self._number(live)
        if self._script.live(number).computed != live.computed:
            self._script.waits(number)
        return self._script.reserve(number, tokens)

    def release(self, live: Live) -> None:
        self._script.release(self._number(live))

    def table(self, live: Live) -> list[int]:
        number = self._lives.get(live)
        return [block.number for block in self._script.live(number).table or ()] if number is not None else []

    def copies(self) -> tuple:
        self._note()
        self._script.copies()
        return ()

    def _number(self, live: Live) -> int:
        self._note()
        if live not in self._lives:
            self._lives[live] = self._script.comes(live.ids, image=live.image, whole=live.whole, priority=live.priority)
        return self._lives[live]

    def _note(self) -> None:
        """What has been computed and told since the last question."""
        for live, number in self._lives.items():
            known = self._script.live(number)
            if known.table is not None and live.computed > known.computed:
                self._script.compute(number, live.computed - known.computed)
            if live.tokens > known.tokens:
                self._script.tell(number, live.ids[-1])


def a_run(sampler: Sampler, scheduler: str) -> Script:
    """Of eight the one with most evictions, copies and refusals; up to where it turns on what is left open, or enough was asked."""
    scripts = [_a_run(sampler, scheduler) for _ in range(8)]
    return max(scripts, key=_shown)


def _shown(script: Script) -> float:
    """How much of what is asked for there is, the rarest first."""
    found, evicted, refused, copies = counts(script)
    return min(copies, 2) + min(refused, 4) / 2 + min(evicted, 12) / 6 + min(found, 40) / 40


def counts(script: Script) -> tuple[int, int, int, int]:
    """Tokens found, blocks evicted, refusals, copies."""
    (model,) = script.models
    done = list(zip(script.events, script.expected, strict=True))
    found = sum(expected["returned"] for event, expected in done if event[1] == "found")
    return (
        found,
        model.evicted,
        model.refused,
        sum(len(expected["returned"]) for event, expected in done if event[1] == "copies"),
    )


class _Long(Exception):
    """Enough has been asked."""


class _Until(Asking):
    def _note(self) -> None:
        if len(self._script.events) > 250:
            raise _Long
        super()._note()


class _Counting:
    """A clock that leaves its mark on each token: output is drawn, and equal for equal beginnings."""

    elapsed_us, modelled = 1000.0, True

    def step(self, work: list) -> list[int | None]:
        return [sum(item.live.ids) % 2**31 if item.context + item.new == item.live.tokens else None for item in work]


def _a_run(sampler: Sampler, scheduler: str) -> Script:
    size = sampler.choice((2, 3, 4))
    script = Script((sampler.integer(11, 15), size), look=sampler.chance(0.7))
    parts = {"chunked": Chunked, "continuous": Continuous}
    budget = Budget(5 * size + 3, 4) if scheduler == "chunked" else Budget(100, 4)
    engine = Engine(parts[scheduler](), _Until(script), Linear(), model=_Counting(), budget=budget)
    for request in _trace(sampler, size):
        engine.submit(request)
    try:
        while engine.busy:
            engine.step()
    except (Unclear, _Long):
        pass
    return script


def _trace(sampler: Sampler, size: int) -> list[Request]:
    """Conversations that begin alike: several questions after the same instructions, or the same again."""
    at, begun, trace = 0.0, [draw_ids(sampler, 2 * size), draw_ids(sampler, 3 * size)], []
    for number in range(18):
        at += sampler.choice((0.0, 900.0, 2500.0, 5000.0))
        start = sampler.choice(begun)
        more = sampler.choice((0, 0, 1, size, size + 1, 2 * size))
        ids = (*start, *draw_ids(sampler, more))
        if len(ids) <= 6 * size and sampler.chance(0.4):
            begun.append(ids[: len(ids) // size * size])
        fields = {"image": sampler.choice((None, None, None, "a")), "leaves_us": sampler.choice((None, None, 2500.0))}
        trace.append(Request(f"r{number}", at, ids, sampler.choice((1, 2, size + 1)), priority=number % 2, **fields))
    return [Request("gone", 1.0, draw_ids(sampler, 3), 1, leaves_us=2.0), *trace]


def draw_ids(sampler: Sampler, n: int) -> tuple[int, ...]:
    return tuple(sampler.integer(0, 2**31) for _ in range(n))
