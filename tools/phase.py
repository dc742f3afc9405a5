"""Runs a command and adds what it took to _build/phases.json: python tools/phase.py PHASE COMMAND ..."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

KEPT = Path(__file__).parents[1] / "_build" / "phases.json"


def main() -> None:
    phase, *command = sys.argv[1:]
    began = time.monotonic()
    ended = subprocess.run(command).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    add(phase, time.monotonic() - began, used.ru_utime + used.ru_stime)
    sys.exit(ended if ended >= 0 else 128 - ended)


def add(phase: str, wall_s: float, cpu_s: float) -> None:
    """A phase of several commands is their sum."""
    kept = taken()
    before = kept.get(phase, {"wall_s": 0.0, "cpu_s": 0.0})
    kept[phase] = {"wall_s": before["wall_s"] + wall_s, "cpu_s": before["cpu_s"] + cpu_s}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept))


def taken() -> dict[str, dict[str, float]]:
    """Seconds of each phase since the file was removed."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


if __name__ == "__main__":
    main()
