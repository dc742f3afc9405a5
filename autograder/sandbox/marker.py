"""Where the open edition's ``gpulab-mark`` is installed: it holds every solution, so no kernel of a course that grades sees it.

The graded edition's wheel of that name holds none, and is left alone."""

from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path

from autograder.core.layout import ROOT

DISTRIBUTION = "gpulab-mark"
_PACKAGES = ("autograder", "exercises")
_PLACES = (
    "lib*/python3*/site-packages",
    "lib*/python3*/dist-packages",
    "local/lib*/python3*/dist-packages",
    "envs/*/lib/python3*/site-packages",
)
"""Of packages, below the prefix of a Python; conda keeps environments below its own."""


def folders(prefixes: Iterable[str]) -> list[str]:
    """Its packages below the prefixes of Pythons, or in folders of packages themselves; not those that this process runs from."""
    places = sorted((place for prefix in prefixes for place in (Path(prefix), *_below(Path(prefix)))), reverse=True)
    once = {place.resolve(): place for place in places if place.resolve() != ROOT.resolve()}  # lib64 is often lib
    found = {Path(str(one.locate_file(""))) for one in _installed(once.values())}
    marks = (place for place in found if (place / "exercises").is_dir())
    return sorted(str(place / name) for place in marks for name in _PACKAGES if (place / name).is_dir())


def _below(prefix: Path) -> Iterable[Path]:
    return (place for pattern in _PLACES for place in prefix.glob(pattern))


def _installed(places: Iterable[Path]) -> Iterable[Distribution]:
    return Distribution.discover(name=DISTRIBUTION, path=[str(place) for place in places])
