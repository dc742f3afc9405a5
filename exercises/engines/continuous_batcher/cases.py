"""Plays for E19.1: traces are drawn until what is due in them meets the situations that a wrong scheduler turns on."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from autograder.core.sampler import Sampler
from exercises.engines.continuous_batcher.batches import UNLIMITED, Batches
from exercises.engines.replay import Decision, stood
from exercises.engines.shared import engine_of
from gpulab.serving import Blocks, Budget, Live, Plan

_TRIES = 400
_CLOCK = [1000.0, 10.0, 0.0]


class Due:
    """A scheduler that does what E19.1 asks for."""

    def __init__(self, play: dict) -> None:
        self.batches = Batches(play)

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        there, waits = {live.name: live for live in (*waiting, *running)}, {live.name for live in waiting}
        groups = [tuple(stood(live, blocks) for live in group) for group in (waiting, running)]
        step = Decision(0.0, *groups, blocks.free, (), {}, ())
        tokens, out = self.batches.due(step)
        for name in out:
            blocks.release(there[name])
        for name, new in tokens.items():
            blocks.reserve(there[name], there[name].left if name in waits else new)
        self.batches.take(replace(step, tokens=tokens, preempt=tuple(out)))
        return Plan({there[name]: new for name, new in tokens.items()}, [there[name] for name in out])


def drawn(sampler: Sampler, make: Callable[[Sampler], dict], patience: int, *wanted: str) -> dict:
    """A play of ``make`` in which each of ``wanted`` comes about."""
    for _ in range(_TRIES):
        play = make(sampler) | {"patience": patience}
        due = Due(play)
        engine = engine_of(play, due)
        while engine.busy:
            engine.step()
        if all(due.batches.seen[what] for what in wanted):
            return play
    raise RuntimeError(f"{_TRIES} draws without all of {', '.join(wanted)}")


def trace(
    sampler: Sampler,
    prompts: Callable[[int], int],
    outputs: tuple[int, int],
    gap: int,
    ties: bool,
    leaves: bool = False,
) -> list[dict]:
    """16 requests that come in bursts of 4, ``gap`` us apart at most.

    prompts: tokens of the n-th. outputs: least and most. ties: all of a burst at one time, and names in no order; else neither
    times nor names leave open who comes first. leaves: every third hangs up after a while.
    """
    found, now = [], 0.0
    numbers = sampler.permutation(range(100, 116)) if ties else range(100, 116)
    for number, named in enumerate(numbers):
        most = sampler.integer(*outputs)
        name = f"{sampler.choice('abcdefgh') if ties else 'r'}{named}"
        fields = {
            "name": name,
            "arrival_us": now + (0 if ties else number % 4),
            "prompt": prompts(number),
            "most": most,
        }
        fields["writes"] = sampler.integer(max(1, most - 2), most)
        if leaves and number % 3 == 1:
            fields["leaves_us"] = 1000.0 * sampler.integer(2, 12)
        found.append(fields)
        if number % 4 == 3:
            now += 500.0 * sampler.integer(0, gap // 500)
    return found


def roomy(sampler: Sampler, ties: bool = False, leaves: bool = False) -> dict:
    """Blocks for all; long prompts wait for tokens, many for a place."""
    big = [40, sampler.integer(26, 33), sampler.integer(34, 39)]
    requests = trace(
        sampler,
        lambda n: sampler.choice(big) if n % 4 == 1 else sampler.integer(1, 12),
        (2, 12),
        2000,
        ties,
        leaves,
    )
    return {"trace": requests, "blocks": [400, 4], "budget": [40, 6], "clock": _CLOCK}


def narrow(sampler: Sampler, ties: bool = False, tokens: int = 128) -> dict:
    """Blocks for few."""
    requests = trace(
        sampler, lambda n: sampler.integer(30, 50) if n % 4 == 1 else sampler.integer(1, 16), (4, 20), 3000, ties
    )
    return {"trace": requests, "blocks": [sampler.integer(18, 20), 4], "budget": [tokens, 8], "clock": _CLOCK}


def small(
    *requests: tuple, budget: tuple[int, int] = (40, 6), blocks: tuple[int, int] = (200, 4), patience: int = UNLIMITED
) -> dict:
    """requests: arrival, prompt and most of each, and when it leaves."""
    fields = ("arrival_us", "prompt", "most", "leaves_us")
    named = [{"name": f"k{n}"} | dict(zip(fields, one, strict=False)) for n, one in enumerate(requests, 1)]
    return {"trace": named, "blocks": [*blocks], "budget": [*budget], "clock": _CLOCK, "patience": patience}


def exact(sampler: Sampler) -> list[dict]:
    """One fits exactly, and nobody comes after it: into tokens, places, blocks, an empty step."""
    first = sampler.integer(5, 12)
    return [
        small((0.0, first, 20), (1.0, 39, 3)),
        small((0.0, first, 20), (1.0, 9, 20), budget=(40, 2)),
        small((0.0, 8, 4), (1.0, 12, 1), blocks=(6, 4)),
        small((0.0, 40, 3)),
        small((0.0, first, 5), (0.0, 9, 5)),
    ]


def outlived(sampler: Sampler) -> dict:
    """The second is overtaken by the third, runs while nobody waits, is preempted, and may not be overtaken by the fourth."""
    last = sampler.integer(1, 4)
    return small((0.0, 30, 12), (0.0, 11, 6), (0.0, 3, 1), (4000.0, last, 3), blocks=(12, 4), patience=1)


def long_prompts(sampler: Sampler) -> list[dict]:
    """Where one begins, what it takes of a step, and who else does."""
    some = sampler.integer(22, 34)
    full = [(0.0, 1, 40)] * 3
    return [
        small((0.0, 39, 5), (0.0, sampler.integer(60, 90), 3)),
        small((0.0, some, 5), (0.0, sampler.integer(60, 90), 3)),
        small(*full, (1.0, sampler.integer(15, 25), 3), budget=(4, 4)),
        small((0.0, 50, 3), (1.0, sampler.integer(55, 70), 3)),
        small(*full, (0.0, 50, 3), (1.0, 1, 3), budget=(40, 4)),
        small((0.0, 30, 5), (0.0, 39, 5), (0.0, 41, 3), *[(1.0, 3, 3)] * 4, patience=1),
        small((0.0, 5, 4), (0.0, 5, 6), (1.0, 40, 3), (2.0, 39, 3)),
    ]


def hangs_up(sampler: Sampler) -> dict:
    """In the middle of its long prompt, and another long one waits."""
    return small((0.0, 200, 3, 2500.0), (1.0, sampler.integer(100, 150), 3))


def names_again() -> list[dict]:
    """One of the second trace has the name of the one that ended the first, overtaken as often as may be."""
    first = small((0.0, 30, 2), (0.0, 38, 10), (0.0, 3, 2), patience=1)
    return [first, small((0.0, 5, 5), (0.0, 38, 4), (0.0, 3, 3), patience=1)]
