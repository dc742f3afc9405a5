"""What was measured on real GPUs: the records in ``evidence/``, written by ``make evidence``."""

import json
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


def latest(card: str, folder: Path = FOLDER) -> dict | None:
    """The newest record of this card (``"H100"``), or None: then its figures are modelled only."""
    return next((r for r in reversed(records(folder)) if r["card"] == card), None)


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
