"""Prefill and decode on shared cards or in two pools: what gpulab.serving's roofline says of each, in the mean.

Every request is alike: ``prompt`` tokens, of which ``found`` lie in the cache already, then ``writes`` tokens. ``rate`` of them
come a second, at random (Poisson), evenly over the cards of a pool. A card computes one prompt at a time, first come first
served, so a prompt waits as in the queue M/D/1: load x seconds / (2 x (1 - load)). Everyone who decodes gets a token
in each step.

Shared: each card computes prompts in chunks, beside the decodes, up to ``budget`` tokens a step. Split: some cards compute
prompts alone, each at once, and send the keys and values of the new tokens, layer by layer as they are computed; a cached prefix
lies on both sides, and is neither computed nor sent. The split is the one whose last token comes soonest.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from gpulab.serving import Roofline

MOST = 256
"""Requests that decode on a card, at most."""


@dataclass(frozen=True)
class Load:
    """rate: requests a second, on ``cards`` together. Tokens: prompt, found of it, writes, budget of a step."""

    prompt: int
    found: int
    writes: int
    rate: float
    cards: int
    budget: int

    @property
    def new(self) -> int:
        """Tokens of a prompt that are computed, and sent."""
        return self.prompt - self.found

    @property
    def context(self) -> int:
        """Tokens that a decode looks back at, in the mean over its output."""
        return self.prompt + self.writes // 2


class Times(NamedTuple):
    """Seconds. wait, prefill: until the first token; exposed: of the transfer, before the second. gap: between tokens, in the
    mean; worst: the longest step in which somebody decodes. batch: requests that decode on a card. cards: of them for prefill."""

    cards: int
    wait: float
    prefill: float
    exposed: float
    gap: float
    worst: float
    batch: int
    writes: int

    @property
    def first(self) -> float:
        return self.wait + self.prefill

    @property
    def last(self) -> float:
        """From arrival to the last token."""
        return self.first + self.exposed + (self.writes - 1) * self.gap


class Transfer(NamedTuple):
    """Of one request: bytes, seconds on the link, and what of them no computation hides. load: of a prefill card's link."""

    nbytes: int
    seconds: float
    exposed: float
    load: float


def chunks(load: Load, batch: int) -> list[tuple[int, int]]:
    """(new, context) of each chunk of a prompt beside ``batch`` decodes."""
    each = load.budget - batch
    return [(min(each, load.prompt - at), at) for at in range(load.found, load.prompt, each)]


def waits(rate: float, seconds: float) -> float:
    """Seconds in the queue M/D/1, infinite where it never empties."""
    return rate * seconds**2 / (2 * (1 - rate * seconds)) if rate * seconds < 1 else math.inf


def room(clock: Roofline, load: Load) -> int:
    """Requests that a card's cache has room for, MOST at most."""
    return min(MOST, clock.slots // (load.prompt + load.writes))


def shared(clock: Roofline, load: Load) -> Times | None:
    """On all cards; None where they cannot keep up. The smallest batch that decodes as fast as requests come."""
    rate = load.rate / load.cards
    for batch in range(1, min(room(clock, load), load.budget)):
        decodes = [(1, load.context)] * batch
        steps = [_seconds(clock, [*decodes, chunk]) for chunk in chunks(load, batch)]
        prefill = sum(steps)
        if rate * prefill >= 1:
            continue
        gap = 1 / (rate * len(steps) + (1 - rate * prefill) / _seconds(clock, decodes))
        if batch >= rate * (load.writes - 1) * gap:
            return Times(0, waits(rate, prefill), prefill, 0.0, gap, max(steps), batch, load.writes)
    return None


def split(clock: Roofline, load: Load) -> Times | None:
    """In two pools, the transfer not yet counted; None where no split keeps up."""
    prefill, found = _seconds(clock, [(load.new, load.found)]), []
    for cards in range(1, load.cards):
        wait, decoding = waits(load.rate / cards, prefill), decode_pool(clock, load, load.cards - cards)
        if decoding and wait < math.inf:
            gap, batch = decoding
            found.append(Times(cards, wait, prefill, 0.0, gap, gap, batch, load.writes))
    return min(found, key=lambda times: times.last, default=None)


def decode_pool(clock: Roofline, load: Load, cards: int) -> tuple[float, int] | None:
    """Seconds of a step and the smallest batch that keeps up."""
    for batch in range(1, room(clock, load) + 1):
        gap = _seconds(clock, [(1, load.context)] * batch)
        if batch >= load.rate / cards * (load.writes - 1) * gap:
            return gap, batch
    return None


def transfer(clock: Roofline, load: Load, times: Times, bytes_per_s: float) -> Transfer:
    """A layer's keys and values leave when it is computed, and one layer's after the other's."""
    nbytes, layers = load.new * clock.kv_bytes, clock.shape.layers
    sent, computed = nbytes / bytes_per_s / layers, times.prefill / layers
    exposed = sent + (layers - 1) * max(0.0, sent - computed)
    return Transfer(nbytes, layers * sent, exposed, load.rate / times.cards * layers * sent)


def break_even(clock: Roofline, load: Load, one: Times | None, two: Times | None) -> float | None:
    """Bytes a second from which on the split's last token comes no later than that of shared cards; None where it never does."""
    if two is None:
        return None
    nbytes, layers, computed = load.new * clock.kv_bytes, clock.shape.layers, two.prefill / clock.shape.layers
    least = load.rate / two.cards * nbytes
    if one is None:
        return least
    margin = one.last - two.last
    if margin <= 0:
        return None
    sent = margin if margin <= computed else (margin + (layers - 1) * computed) / layers
    return max(least, nbytes / layers / sent)


def _seconds(clock: Roofline, work: list[tuple[int, int]]) -> float:
    return clock.step_us(work) / 1e6
