"""Seconds of processor time that the tests of a chapter, and those of all that chapters share, may take."""

from collections import defaultdict
from collections.abc import Iterable

CHAPTER_BUDGET_SECONDS = 40
ROOMS_BUDGET_SECONDS = 800
"""Of the machinery that all chapters share: all rooms together. A whole run took 755."""
TOO_MUCH = 2.0
"""Times its budget fails the run: a busy machine inflates processor time. Tests of a chapter that took 46 s alone took 91 s
among all others, and `tests.speed` sees half of that."""


def by_payer(costs: Iterable[tuple[list[str], float, float]]) -> dict[str, dict[str, float]]:
    """Tests and seconds of each chapter and room, the dearest first. Chapters that share a test share its cost."""
    of = defaultdict(lambda: {"tests": 0, "cpu_s": 0.0, "wall_s": 0.0})
    for names, cpu_s, wall_s in costs:
        for name in names:
            one = of[name]
            one["tests"] += 1
            one["cpu_s"] += cpu_s / len(names)
            one["wall_s"] += wall_s / len(names)
    return dict(sorted(of.items(), key=lambda item: -item[1]["cpu_s"]))


def too_dear(of: dict[str, dict[str, float]]) -> list[str]:
    """A sentence for each chapter, and one for the rooms, whose tests took more than their budget allows."""
    rooms = sum(one["cpu_s"] for name, one in of.items() if name.startswith("room "))
    took = {name: one["cpu_s"] for name, one in of.items() if name.startswith("chapter ")} | {"all rooms": rooms}
    return [
        f"the tests of {name} took {cpu_s:.0f} s of processor time: {most:.0f} s are allowed"
        for name, cpu_s in took.items()
        if cpu_s > (most := allowed_seconds(name))
    ]


def allowed_seconds(name: str) -> float:
    """Of processor time, to ``chapter views`` or ``all rooms``."""
    return TOO_MUCH * (ROOMS_BUDGET_SECONDS if name == "all rooms" else CHAPTER_BUDGET_SECONDS)
