"""Questions of the chapters that a GPU answers, each a table of rows: ``make evidence`` runs them.

A study is a generator: for each row it yields the name and a function that gives the row's figures, by
names that end in the unit (``us``, ``_us``, ``bytes``, ``_per_s``) or are plain counts and shares. The
runner calls it at once; what stands between two ``yield`` may be shared. A row that the card or the
model refuses holds ``why`` instead.
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

Figures = dict[str, float | str | None]
Rows = Iterator[tuple[str, Callable[[], Figures]]]


@dataclass(frozen=True)
class Study:
    """about: what a row is and under which conditions. chapters: which read it.

    model: ``"ghost"`` or ``"virtual"`` where the modelled card answers too, else None.
    """

    rows: Callable[[], Rows]
    about: str
    chapters: tuple[str, ...]
    model: str | None = None


def answered(study: Study) -> dict[str, Figures]:
    """Every row's figures, and ``why`` where there are none, on whatever ``device="cuda"`` means."""
    found = {}
    for name, measure in study.rows():
        _clean()
        found[name] = _figures(measure)
    _clean()
    return found


def _figures(measure: Callable[[], Figures]) -> Figures:
    try:
        return measure()
    except Exception as why:  # whatever it is, the other rows are measured
        return {"why": f"{type(why).__name__}: {(str(why).splitlines() or [''])[0][:300]}"}


def _clean() -> None:
    gc.collect()
    torch.cuda.empty_cache()
