"""What was measured on real GPUs: the records in ``evidence/``, written by ``make evidence``."""

import json
from collections.abc import Iterator
from pathlib import Path

from gpulab.cards.cards import CARDS

FOLDER = Path(__file__).parents[1] / "evidence"


def card_of(device_name: str) -> str | None:
    """The key of the modelled card that ``torch.cuda.get_device_name()`` calls so; None without one."""
    plain = device_name.removesuffix(" (virtual)")
    return next((card.key for card in CARDS.values() if card.name == plain), None)


def records(folder: Path = FOLDER) -> list[dict]:
    """Every record of a real GPU, the oldest first."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted((r for r in found if r["runtime"] == "real"), key=lambda record: record["date"])


def latest(card: str, folder: Path = FOLDER, holding: str = "") -> dict | None:
    """The newest record of this card (``"H100"``), or None: then its figures are modelled only.

    ``holding``: a part of records, as ``"counters"``, that it must have; a run may have measured others alone.
    """
    return next((r for r in _newest_first(card, folder) if not holding or r.get(holding)), None)


def provenance(card: str, folder: Path = FOLDER) -> str:
    """One sentence for a figure: measured on what and when, or modelled."""
    record = latest(card, folder)
    if record is None:
        return f"Modelled: no measurement of {CARDS[card].name} is recorded."
    versions = record["versions"]
    return (
        f"Measured on {record['device']}, driver {record['driver']}, CUDA {versions['cuda']}, "
        f"PyTorch {versions['torch']}, {record['date']}."
    )


def study(name: str, card: str = "H100", folder: Path = FOLDER) -> dict[str, dict]:
    """The measured figures of a study's rows, by row, from the newest record of the card that holds it.

    A row without ``why`` was measured. Raises KeyError where no record holds the study.
    """
    return _newest(card, folder, "studies", name)["studies"][name]["measured"]


def printed(page: str, text: str, card: str = "H100", folder: Path = FOLDER) -> str:
    """What the cell of a page (``"chapters/one_gpu/precision.md"``) whose source has ``text`` printed on the card.

    Raises KeyError where no record holds the page, or none of its cells has the text.
    """
    for cell in _newest(card, folder, "cells", page)["cells"][page]["printed"]:
        if text in cell["source"]:
            return cell["printed"].rstrip()
    raise KeyError(f"no recorded cell of {page} has {text!r}")


def where(of: str, card: str = "H100", folder: Path = FOLDER) -> str:
    """In a few words, for a table's head: ``"measured on an H100, 2026-11-25"``.

    ``of``: a study, or a page whose cells were run. Raises KeyError where no record holds it.
    """
    part = "cells" if of.endswith(".md") else "studies"
    return f"measured on an {card}, {_newest(card, folder, part, of)['date']}"


def _newest(card: str, folder: Path, part: str, name: str) -> dict:
    for record in _newest_first(card, folder):
        if name in (record.get(part) or {}):
            return record
    raise KeyError(f"no record of {card} holds {name!r} among its {part}")


def _newest_first(card: str, folder: Path) -> Iterator[dict]:
    return (record for record in reversed(records(folder)) if record["card"] == card)


def trace(card: str = "H100", folder: Path = FOLDER) -> Path:
    """The newest recorded profile of the card, a gzipped Chrome trace. Raises KeyError without one."""
    if found := sorted(folder.glob(f"{card}-*.trace.json.gz")):
        return found[-1]
    raise KeyError(f"no trace of {card}")
