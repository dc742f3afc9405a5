"""The alert rules of ``alerts.yml``, and which metrics an expression rests on."""

import re
from pathlib import Path

RULES = Path(__file__).with_name("alerts.yml")


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in it: the cards', and the training loop's."""
    return set(re.findall(r"\b(?:DCGM_\w+|train_\w+)", expression))
