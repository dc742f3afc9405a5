"""Stand-ins for what a notebook has from libraries: they can be named and compared, and say that they are not here when used."""

from importlib.abc import MetaPathFinder
from typing import Any, NoReturn


def missing(name: str) -> ModuleNotFoundError:
    top = name.partition(".")[0]
    return ModuleNotFoundError(
        f"{name} is not there: this exercise is answered in plain Python, without {top}", name=name
    )


class Absent(type):
    """The class of stand-ins. They are classes, so that ``isinstance(x, numpy.ndarray)`` is False, as it is without NumPy."""

    def __getattr__(cls, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls.__qualname__}.{name}")

    def __call__(cls, *arguments: Any, **named: Any) -> NoReturn:
        stand_in = next(
            kind for kind in cls.__mro__ if kind.__module__ == __name__
        )  # it, or what a learner's class is made from
        raise missing(stand_in.__qualname__)

    def __repr__(cls) -> str:
        return f"<{cls.__qualname__}, which is not there>"


def absent(name: str) -> Absent:
    """What stands for ``name``, such as ``numpy.ndarray``."""
    return Absent(name, (), {"__module__": __name__, "__qualname__": name})


class NotHere(MetaPathFinder):
    """Asked last: says of an import why it fails."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        raise missing(name)
