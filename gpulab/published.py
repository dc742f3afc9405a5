"""Measurements of real GPUs that others published: ``evidence/published.yml``."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from gpulab.yaml_files import read_yaml

FILE = Path(__file__).parents[1] / "evidence" / "published.yml"
Group = Literal[
    "memory", "matmul", "kernel", "copy", "launch", "training", "peak-memory", "collective", "serving", "inference"
]
GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True)
class Source:
    """Where a figure stands: ``place`` is the commit, the file and the row or line."""

    title: str
    authors: str
    year: int
    place: str
    url: str


@dataclass(frozen=True)
class Measurement:
    """One figure. ``workload`` holds the numbers that a model needs: sizes, dtype, direction.

    ``use``: "fit" where a constant of the model was fitted to it, "hold" where it was held out.
    """

    id: str
    group: Group
    card: str
    what: str
    workload: dict[str, Any]
    value: float
    unit: str
    conditions: str
    use: Literal["fit", "hold"]
    source: Source


@cache
def measurements(file: Path = FILE) -> tuple[Measurement, ...]:
    """All of them, in the file's order. Raises ValueError for an entry that is incomplete or twice there."""
    found = tuple(_measurement(entry) for entry in read_yaml(file))
    if len({m.id for m in found}) != len(found):
        raise ValueError(f"{file.name}: an id is there twice")
    return found


def measurement(id: str) -> Measurement:
    """The one of this id. Raises KeyError."""
    return {m.id: m for m in measurements()}[id]


def _measurement(entry: dict) -> Measurement:
    try:
        found = Measurement(**{**entry, "value": float(entry["value"]), "source": Source(**entry["source"])})
    except (KeyError, TypeError, ValueError) as why:
        raise ValueError(f"published measurement {entry.get('id')!r}: {why}") from why
    if found.group not in GROUPS or found.use not in ("fit", "hold") or found.value <= 0 or not found.unit:
        raise ValueError(f"published measurement {found.id!r}: unknown group or use, or no value")
    if not found.source.url.startswith("https://") or not found.source.place:
        raise ValueError(f"published measurement {found.id!r}: a source has an address and a place")
    return found
