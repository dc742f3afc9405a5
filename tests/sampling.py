"""Which of many alike parameters each run tries, and which only an audit."""

from collections.abc import Container, Iterable

import pytest


def sampled(values: Iterable, now: Container) -> list:
    """Parameters of a test, in order: those that are in ``now`` for every change, the others for an audit."""
    return [value if value in now else pytest.param(value, marks=pytest.mark.audit) for value in values]


def in_seeds(now: int, all: int) -> pytest.MarkDecorator:
    """``seeds``: the first ``now`` for every change, the rest for an audit."""
    return pytest.mark.parametrize(
        "seeds",
        sampled([range(now), range(now, all)], now=[range(now)]),
        ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}",
    )


def looks(desktop: object, phone: object, now: Container[str] = ("desktop-light", "phone-dark")) -> list:
    """A screen and a scheme: those of ``now`` for every change, each pair in an audit."""
    pairs = {
        f"{name}-{scheme}": (screen, scheme)
        for name, screen in (("desktop", desktop), ("phone", phone))
        for scheme in ("light", "dark")
    }
    return [
        pytest.param(*pair, id=name, marks=[] if name in now else pytest.mark.audit) for name, pair in pairs.items()
    ]
