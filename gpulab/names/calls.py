"""What a call comes to."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

from gpulab.cuda.errors import NotModelled

WORKS, REFUSED = "works", "refused by name"


@dataclass(frozen=True)
class Names:
    """The public names of a module of PyTorch.

    ``calls``: by name, or by what the page calls it, a call of it. ``others``: by reason the names that are not called.
    """

    module: str
    calls: dict[str, Callable]
    others: dict[str, tuple[str, ...]]


def outcome(call: Callable, *args) -> str:
    """``WORKS`` or ``REFUSED``. What raises anything but NotModelled raises here too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(*args)
        except NotModelled:
            return REFUSED
    return WORKS
