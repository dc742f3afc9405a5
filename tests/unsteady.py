"""The tests that failed and, run again alone, passed: kept with what was said the first time."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.outcomes import Test

KEPT = Path("benchmarks", "results", "unsteady.json")
"""In the folder that the tests run in."""


def keep(tests: dict[str, Test], path: Path = KEPT) -> None:
    """Adds them to what is there, the latest last; a reader finds the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    now, commit = datetime.now(UTC).date().isoformat(), _commit()
    kept = json.loads(path.read_text()) if path.exists() else []
    kept += [{"test": name, "date": now, "commit": commit, "said": test.said} for name, test in tests.items()]
    written = path.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(kept, indent=1) + "\n")
    written.replace(path)


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()
