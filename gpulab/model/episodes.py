"""Whole episodes: a policy looks, moves the arm, looks again; and what is left of it without words or eyes."""

from collections.abc import Iterator

import numpy as np
import torch

from gpulab.model.camera import BACKGROUND
from gpulab.model.world import WORDS, Worlds

STEPS = 24
"""Of an episode."""
TOLERANCE = 4.0
"""An episode succeeds where its tip ends within so many pixels of the middle of the named object."""
WITHOUT = ("another object", "another episode", "colour", "shape", "camera")
"""What a policy can be denied: the right words (two ways), one word, its eyes."""


def act(
    policy: torch.nn.Module, worlds: Worlds, text: np.ndarray | None = None, blind: bool = False
) -> Iterator[np.ndarray]:
    """Let ``policy`` act in ``worlds`` for an episode; yields the images (n, 64, 64, 3) that it sees, one a step.

    The policy is asked where its parameters are. ``text``: other instructions than the worlds'. ``blind``: blank images.
    """
    device = next(policy.parameters()).device
    words = torch.from_numpy(worlds.text() if text is None else text).to(device)
    for _ in range(STEPS):
        image = worlds.camera()
        if blind:
            image = np.full_like(image, BACKGROUND)
        tokens = policy.generate(torch.from_numpy(image).to(device), words)
        worlds.step(tokens.cpu().numpy() - len(WORDS))
        yield image


def success(policy: torch.nn.Module, episodes: int, seed: int | list[int], without: str = "", **options) -> float:
    """The share of episodes that end at the named object. ``without``: one of ``WITHOUT``. ``options``: of ``Worlds``."""
    if without and without not in WITHOUT:
        raise ValueError(f"nothing is called {without!r}; a policy can be denied {', '.join(WITHOUT)}")
    rng = np.random.default_rng(seed)
    worlds = Worlds(episodes, rng, **options)
    for _ in act(policy, worlds, _words(worlds, rng, without), blind=without == "camera"):
        pass
    return float((worlds.distance() <= TOLERANCE).mean())


def _words(worlds: Worlds, rng: np.random.Generator, without: str) -> np.ndarray:
    text = worlds.text()
    if without == "another object":
        return worlds.text((worlds.target + rng.integers(1, 4, worlds.n)) % 4)
    if without == "another episode":
        return text[rng.permutation(worlds.n)]
    if without in ("colour", "shape"):
        text[:, -2 if without == "colour" else -1] = 0
    return text
