"""How this server held when it was measured: the record of ``make load-model``."""

import json
from pathlib import Path

RECORD = Path(__file__).with_name("record.json")


def record() -> dict:
    """``machine``; ``streams`` and ``load``, each with its ``date`` and what was ``found``. Seconds and milliseconds as named."""
    return json.loads(RECORD.read_text("utf-8"))
