"""The job of the triage board in every state that its budget can reach: ``python -m gpulab.widgets.triage_board.recorded`` runs them all anew."""

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from gpulab.capstone import FIGURES, OPTIONS, Job, healthy, same_losses, targets
from gpulab.capstone.remembered import Remembered
from gpulab.capstone.report import Report

FILE = Path(__file__).with_name("states.json")
PLANTED = ("no workers", "every gradient on its own", "outputs kept for a histogram")
BUDGET = 3
OFFERED = (
    "accumulate over two batches",
    "checkpoint every block",
    "losses stay on the card",
    "no clipping",
    "one all-reduce",
    "pinned buffers",
    "shard the model",
    "workers read ahead",
)
SHOWN = ("step_us", "input_us", "launches", "collectives", "flops", "peak_bytes", "growth_bytes")


def states() -> Iterator[tuple[int, ...]]:
    """The changes in force, as numbers of :data:`OFFERED`: none, and up to the budget, no two of one part."""
    for count in range(BUDGET + 1):
        for made in combinations(range(len(OFFERED)), count):
            parts = [part for number in made for part in OPTIONS[OFFERED[number]].parts]
            if len(set(parts)) == len(parts):
                yield made


def told(report: Report) -> dict:
    """What the board shows of a run."""
    figures = [report[name] if isinstance(report[name], int) else round(report[name], 3) for name in SHOWN]
    return {
        "figures": figures,
        "loss": round(report.losses[-1], 4),
        "same": same_losses(report.losses, healthy().losses),
    }


def ran(made: tuple[int, ...]) -> dict:
    return told(Remembered(Job(PLANTED)).run([OFFERED[number] for number in made]))


def key(made: tuple[int, ...]) -> str:
    return " ".join(map(str, made))


def record() -> dict:
    """Everything that the board needs."""
    return {
        "budget": BUDGET,
        "figures": [{"name": name, "says": FIGURES[name], "most": round(targets()[name], 3)} for name in SHOWN],
        "loss": told(healthy())["loss"],
        "options": [{"name": name, "does": OPTIONS[name].does, "parts": list(OPTIONS[name].parts)} for name in OFFERED],
        "states": {key(made): ran(made) for made in states()},
    }


def recorded() -> dict:
    """As :func:`record` found it when it was last run."""
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
