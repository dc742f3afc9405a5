"""What was marked, on disk: ``marking/STUDENT/CHAPTER/DIGEST/`` holds the notebook, the page and ``result.json``.

A try is a folder in which ``begun`` says that the learner's code was run: what that code does decides nothing about it.
"""

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autograder.core.marks import Marks
from autograder.core.replaced import replaced

FOLDER = "marking"
"""In the course folder."""
TIME = "%Y-%m-%d %H:%M UTC"
RESULT, PAGE, LOG, BEGUN = "result.json", "page.html", "log.txt", "begun"


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

    def run(self) -> None:
        """From now on it is a try."""
        (self.folder / BEGUN).touch()

    def give_back(self) -> None:
        """The service ended it: it was none."""
        (self.folder / BEGUN).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Without marks nobody looks at the notebook again."""
        if "marks" not in (self.result() or {}):
            self.notebook.unlink(missing_ok=True)

    @property
    def was_run(self) -> bool:
        return (self.folder / BEGUN).exists()

    def result(self) -> dict | None:
        """``{"marks": ...}`` or ``{"refused": sentence}``; None while there is none, and where marking ended without."""
        path = self.folder / RESULT
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def when(self) -> str:
        """Its code was run."""
        return datetime.fromtimestamp((self.folder / BEGUN).stat().st_mtime, UTC).strftime(TIME)

    def said(self) -> str:
        """What became of it, in a line; empty where it has no result."""
        result = self.result() or {}
        if "marks" in result:
            marks = Marks.from_dict(result["marks"])
            return f"{marks.score:g} of {marks.max_score:g} points"
        return f"refused: {result['refused']}" if result else ""

    def page(self) -> str:
        return (self.folder / PAGE).read_text("utf-8")

    def keep(self, marks: Marks, page: str) -> None:
        (self.folder / PAGE).write_text(page, "utf-8", "backslashreplace")  # a learner's text may hold broken Unicode
        self._write({"marks": marks.to_dict()})

    def refuse(self, why: str) -> None:
        self._write({"refused": why})

    def _write(self, result: dict) -> None:
        with replaced(self.folder / RESULT) as file:
            json.dump(result, file)


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
        return len(self.tries(student, chapter))

    def tries(self, student: str = "*", chapter: str = "*") -> list[Record]:
        """Of names, or all of ``*``, by student, chapter and time."""
        folders = self.folder.glob("*/*/*") if student == "*" else (self.folder / student / chapter).glob("*")
        made = [Record(folder) for folder in folders if Record(folder).was_run]
        return sorted(made, key=lambda record: (*record.folder.parts[-3:-1], (record.folder / BEGUN).stat().st_mtime))


def _names_a_folder(name: str) -> bool:
    return name not in ("", "secret") and name[0] != "." and not {"/", "\0"} & set(name) and len(name.encode()) < 256
