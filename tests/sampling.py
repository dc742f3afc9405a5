"""What every change tries of many alike, and what an audit tries besides."""

from collections.abc import Container, Iterable

import pytest


def sampled(values: Iterable, now: Container) -> list:
    """Parameters of a test, in order: those that are in ``now`` for every change, the others for an audit."""
    return [value if value in now else pytest.param(value, marks=pytest.mark.audit) for value in values]


def looks(desktop: object, phone: object) -> list:
    """A screen and a scheme: each screen and each scheme once for every change, each pair in an audit."""
    now = {"desktop-light": (desktop, "light"), "phone-dark": (phone, "dark")}
    others = {"desktop-dark": (desktop, "dark"), "phone-light": (phone, "light")}
    return [
        *(pytest.param(*pair, id=name) for name, pair in now.items()),
        *(pytest.param(*pair, id=name, marks=pytest.mark.audit) for name, pair in others.items()),
    ]
