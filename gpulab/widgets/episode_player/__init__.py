"""Episodes of the reaching world, replayed: where the arm was after each of the policy's actions."""

from collections.abc import Sequence

import anywidget
import numpy as np
import torch
import traitlets

from gpulab.model.camera import COLOURS, SHAPES, SIZE
from gpulab.model.episodes import TOLERANCE, act
from gpulab.model.world import BASE, WORDS, Worlds, tip_of
from gpulab.widgets._source import module, style

MAX_EPISODES = 8


class EpisodePlayer(anywidget.AnyWidget):
    """What a policy did in some episodes, action by action, with no kernel. See :func:`episodes`.

    Args:
        episodes: records of :func:`episodes`, in the order of their buttons.
        label: what is shown, for the heading.

    Raises:
        ValueError: without an episode, or with more than fit beside each other.
    """

    _esm = module("episode_player")
    _css = style("episode_player")
    episodes = traitlets.List().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, episodes: Sequence[dict], label: str = "Episodes of the reaching world"):
        if not 0 < len(episodes) <= MAX_EPISODES:
            raise ValueError(f"{len(episodes)} episodes: show 1 to {MAX_EPISODES}")
        # A reader without a script sees the whole way of the first.
        super().__init__(episodes=list(episodes), label=label, step=len(episodes[0]["tips"]) - 1)


def episodes(policy: torch.nn.Module, worlds: Worlds, text: np.ndarray | None = None) -> list[dict]:
    """Let ``policy`` act in all ``worlds`` and record each: objects, and joints of the arm after every action.

    text: other words than the worlds' own, (n, 6). Lengths are pixels of the camera, rounded to a tenth.
    """
    told = worlds.text() if text is None else text
    arm = [tip_of(worlds.joints)]
    # The arm moves before an image is handed out.
    arm += [tip_of(worlds.joints) for _ in act(policy, worlds, text)]
    elbows, tips = (np.stack(places, 1).round(1) for places in zip(*arm, strict=True))
    goals, distance = worlds.goal().round(1), worlds.distance()
    return [
        {
            "told": " ".join(WORDS[word] for word in told[i, 1:]), "named": worlds.say(i), "objects": _objects(worlds, i),
            "goal": goals[i].tolist(), "elbows": elbows[i].tolist(), "tips": tips[i].tolist(),
            "base": BASE.tolist(), "size": SIZE, "tolerance": TOLERANCE,
            "distance": round(float(distance[i]), 1), "reached": bool(distance[i] <= TOLERANCE),
        }
        for i in range(worlds.n)
    ]  # fmt: skip


def _objects(worlds: Worlds, i: int) -> list[dict]:
    names, paints = list(COLOURS), list(COLOURS.values())
    return [
        {
            "name": f"{names[colour]} {SHAPES[shape]}",
            "shape": SHAPES[shape],
            "place": place.round(1).tolist(),
            "colour": "#{:02x}{:02x}{:02x}".format(*paints[colour]),
        }
        for colour, shape, place, seen in zip(
            worlds.colour[i], worlds.shape[i], worlds.place[i], worlds.seen[i], strict=True
        )
        if seen
    ]
