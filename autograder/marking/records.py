"""What was marked, on disk: ``marking/STUDENT/CHAPTER/DIGEST/`` holds the notebook, the page and ``result.json``.

A try is a folder whose result holds marks. What was refused, or did not come to its end, costs none.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from autograder.core.marks import Marks

RESULT, PAGE, LOG = "result.json", "page.html", "log.txt"


@dataclass(frozen=True)
class Record:
    """Of one notebook. ``digest``: of what was sent, the same for what is sent again."""

    folder: Path

    @property
    def notebook(self) -> Path:
        return self.folder / f"{self.folder.parent.name}.ipynb"

    def begin(self, raw: bytes) -> None:
        """Lay the notebook down, alone."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.notebook.write_bytes(raw)

    def result(self) -> dict | None:
        """``{"marks": ...}`` or ``{"refused": sentence}``; None while there is none."""
        path = self.folder / RESULT
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def page(self) -> str:
        return (self.folder / PAGE).read_text("utf-8")

    def keep(self, marks: Marks, page: str) -> None:
        (self.folder / PAGE).write_text(page, "utf-8")
        self._write({"marks": marks.to_dict()})

    def refuse(self, why: str) -> None:
        self._write({"refused": why})

    def _write(self, result: dict) -> None:
        """Whole or not at all."""
        draft = self.folder / f".{RESULT}"
        draft.write_text(json.dumps(result), "utf-8")
        draft.replace(self.folder / RESULT)


@dataclass(frozen=True)
class Records:
    """Of a course. ``folder``: its ``marking``."""

    folder: Path

    def of(self, student: str, chapter: str, digest: str) -> Record:
        """Raises ValueError for a name that is no name of a folder."""
        if bad := next((name for name in (student, chapter, digest) if not _names_a_folder(name)), ""):
            raise ValueError(f"{bad!r} cannot name a folder")
        return Record(self.folder / student / chapter / digest)

    def used(self, student: str, chapter: str) -> int:
        """Tries."""
        made = (Record(path.parent).result() for path in (self.folder / student / chapter).glob(f"*/{RESULT}"))
        return sum("marks" in (result or {}) for result in made)


def _names_a_folder(name: str) -> bool:
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name
