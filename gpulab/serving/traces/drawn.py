"""Requests that are drawn: the same ones for the same seed.

Every function takes, besides what it says itself,

- ``prompt`` and ``writes``: tokens of prompt and output, a whole number or (least, most) to draw from evenly;
- ``most``: what each client asks for at most; a ``writes`` above it is cut;
- ``vocabulary``: prompts become token ids below it, for a model that computes them; 0 for their number alone;
- fields of every Request, such as ``leaves_us`` or ``priority``.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpulab.serving.requests import PREFIX_BLOCK, Request

Length = int | tuple[int, int]


def poisson(n: int, per_s: float, *, seed: int, **drawn) -> list[Request]:
    """``n`` requests that know nothing of each other, ``per_s`` a second: the gaps are exponential."""
    return bursty(n, per_s, 1.0, seed=seed, **drawn)


def bursty(n: int, per_s: float, spread: float, *, seed: int, **drawn) -> list[Request]:
    """Gaps from a Gamma distribution whose standard deviation is ``spread`` times their mean: 1 is Poisson, more comes in
    bursts. In the whole of Azure's traces (``azure``) it is 1.09 for conversations and 13.2 for code."""
    rng = np.random.default_rng(seed)
    return _requests(rng, _arrivals_us(rng, n, per_s, spread), **drawn)


def long_among_short(
    n: int, per_s: float, *, long: Length, every: int, prompt: Length, seed: int, **drawn
) -> list[Request]:
    """As ``poisson``, but every ``every``-th prompt is as long as ``long`` says."""
    rng = np.random.default_rng(seed)
    lengths = [long if number % every == every - 1 else prompt for number in range(n)]
    return _requests(rng, _arrivals_us(rng, n, per_s), prompt=lengths, **drawn)


def shared_prefixes(
    n: int, per_s: float, *, groups: int, blocks: int, seed: int, vocabulary: int = 0, **drawn
) -> list[Request]:
    """As ``poisson``, but each request belongs to one of ``groups`` that begin with the same ``blocks`` x ``PREFIX_BLOCK``
    tokens, such as a system prompt; ``prompt`` is what follows. With ``vocabulary`` the token ids are the same too."""
    rng = np.random.default_rng(seed)
    starts = [tuple(ids) for ids in rng.integers(max(1, vocabulary), size=(groups, blocks * PREFIX_BLOCK)).tolist()]
    found = []
    for request in _requests(rng, _arrivals_us(rng, n, per_s), vocabulary=vocabulary, **drawn):
        group = int(rng.integers(groups))
        prompt = starts[group] + request.prompt if vocabulary else len(starts[group]) + request.prompt
        found.append(replace(request, prompt=prompt, prefix=tuple(range(group * blocks, (group + 1) * blocks))))
    return found


def robots(count: int, hz: float, seconds: float, *, action_tokens: int, seed: int, **drawn) -> list[Request]:
    """``count`` robots, each of which asks ``hz`` times a second for an action of ``action_tokens`` tokens, and needs it
    before it asks again: that is the deadline. Every robot asks at a moment of its own within the period."""
    rng, period_us = np.random.default_rng(seed), 1e6 / hz
    starts, turns = rng.uniform(0, period_us, count).tolist(), range(int(hz * seconds))
    asked = sorted((start + turn * period_us, robot) for robot, start in enumerate(starts) for turn in turns)
    actions = {"writes": action_tokens, "most": action_tokens, "deadline_us": period_us}
    requests = _requests(rng, [us for us, _ in asked], **{**actions, **drawn})
    return [replace(r, name=f"{r.name} of robot {robot}") for r, (_, robot) in zip(requests, asked, strict=True)]


def _arrivals_us(rng: np.random.Generator, n: int, per_s: float, spread: float = 1.0) -> list[float]:
    return np.cumsum(rng.gamma(spread**-2, 1e6 * spread**2 / per_s, n)).tolist()


def _requests(
    rng: np.random.Generator,
    arrivals: Sequence[float],
    *,
    prompt: Length | list[Length],
    writes: Length,
    most: int,
    vocabulary: int = 0,
    **fields,
) -> list[Request]:
    found = []
    for number, us in enumerate(arrivals):
        length = _drawn(rng, prompt[number] if isinstance(prompt, list) else prompt)
        asked = tuple(rng.integers(vocabulary, size=length).tolist()) if vocabulary else length
        found.append(Request(f"r{number}", us, asked, most, min(most, _drawn(rng, writes)), **fields))
    return found


def _drawn(rng: np.random.Generator, length: Length) -> int:
    return length if isinstance(length, int) else int(rng.integers(length[0], length[1] + 1))
