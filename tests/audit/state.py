"""What an audit has done by now, so that it goes on where it was stopped; and its results, by chapter and room."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.audit.units import Unit

RECORD = "trials.json"
"""Audits write it themselves: no unit depends on it."""


@dataclass(frozen=True)
class State:
    """``folder``: for a file of each unit. ``results``: the file of all, kept with the sources. ``key``: of what a unit depends on."""

    folder: Path
    results: Path
    key: Callable[[Unit], str]

    def of(self, unit: Unit) -> dict | None:
        """What was found since its files are what they are."""
        path = self._path(unit)
        kept = json.loads(path.read_text()) if path.exists() else {}
        return kept if kept.get("key") == self.key(unit) else None

    def forget(self, unit: Unit) -> None:
        self._path(unit).unlink(missing_ok=True)

    def keep(self, unit: Unit, key: str, found: dict[str, dict], when: dict) -> None:
        """``key``: as it was when the unit began. ``when``: commit, date and seconds."""
        _write(self._path(unit), {"key": key, "found": found})
        results = json.loads(self.results.read_text()) if self.results.exists() else {}
        results = {of: {name: one for name, one in units.items() if name != unit.name} for of, units in results.items()}
        for of, one in found.items():
            results.setdefault(of, {})[unit.name] = when | one
        _write(self.results, {of: dict(sorted(units.items())) for of, units in sorted(results.items()) if units})

    def _path(self, unit: Unit) -> Path:
        return self.folder / f"{unit.file}.json"


def _write(path: Path, what: dict) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(what, indent=1) + "\n")
    part.replace(path)


def key_in(root: Path) -> Callable[[Unit], str]:
    """A hash of what a unit is and of the files that it depends on: those that git knows or does not ignore."""

    @cache
    def content(path: str) -> str:
        file = root / path
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "none"

    @cache
    def of(depends: tuple[str, ...]) -> str:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *depends]
        paths = sorted(
            {*subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")} - {""}
        )
        return "\n".join(f"{path} {content(path)}" for path in paths if not path.endswith(f"/{RECORD}"))

    return lambda unit: hashlib.sha256(f"{unit.name}\n{of(unit.depends)}".encode()).hexdigest()[:16]
