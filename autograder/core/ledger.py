"""What the referee found, a JSON file a submission; the gradebook's scores come from here.

A submission's entry is written again after each graded cell, whole and atomically, so that
a run killed at any moment leaves either the old entry or the new one.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autograder.core.flag import Flag
from autograder.core.replaced import replaced
from autograder.core.unexplained import Unexplained
from autograder.core.verdict import Verdict

NOT_GRADED = "not graded"


@dataclass
class Entry:
    """One submission. ``state``: ``running``, ``graded`` or ``failed``.

    ``outcome`` says how its code ended: ``ran``, ``timed out``, ``crashed`` (the kernel died)
    or ``flooded`` (stopped for its output); ``not graded``: nothing could be made of what was
    handed in. ``verdicts`` by grade_id; ``notes`` are sentences for the learner and the
    instructor about what happened on the way; ``incidents`` are for the instructor. ``flags``: places in the code that a
    person should look at; they cost nothing. ``broken`` says which judge or scenario failed and where, so that points may
    have been denied that were due; ``tracebacks``, of such judges, are for the exercise's author.
    ``handed_in``: the digest of what was graded, by which a change is noticed whatever its time says. ``unexplained``, by
    grade_id: where known wrong functions could name a misconception and were not played.
    """

    assignment: str
    student: str
    state: str = "running"
    outcome: str = "ran"
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    incidents: list[str] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    handed_in: str = ""
    unexplained: dict[str, Unexplained] = field(default_factory=dict)

    def to_dict(self) -> dict:
        verdicts = {grade_id: verdict.to_dict() for grade_id, verdict in self.verdicts.items()}
        unexplained = {grade_id: asdict(one) for grade_id, one in self.unexplained.items()}
        flags = [asdict(flag) for flag in self.flags]
        return {**self.__dict__, "verdicts": verdicts, "flags": flags, "unexplained": unexplained}

    @classmethod
    def from_dict(cls, data: dict) -> "Entry":
        verdicts = {grade_id: Verdict.from_dict(verdict) for grade_id, verdict in data["verdicts"].items()}
        flags = [Flag(**flag) for flag in data.get("flags", [])]
        unexplained = {grade_id: Unexplained(**one) for grade_id, one in data.get("unexplained", {}).items()}
        return cls(**{**data, "verdicts": verdicts, "flags": flags, "unexplained": unexplained})


class Ledger:
    """The entries of one course; ``root`` is the course folder."""

    def __init__(self, root: str | Path) -> None:
        self.folder = Path(root) / "ledger"

    @classmethod
    def of_course(cls) -> "Ledger":
        """The ledger of the course nbgrader is working on: it works from the course's root."""
        return cls(Path.cwd())

    def path(self, assignment: str, student: str) -> Path:
        return self.folder / assignment / f"{student}.json"

    def read(self, assignment: str, student: str) -> Entry | None:
        """The entry, or None when there is none or it cannot be read."""
        try:
            return Entry.from_dict(json.loads(self.path(assignment, student).read_text()))
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
            return None

    def write(self, entry: Entry) -> None:
        path = self.path(entry.assignment, entry.student)
        path.parent.mkdir(parents=True, exist_ok=True)
        # What a power failure takes of a running entry is written again anyway.
        with replaced(path, survives_power_failure=entry.state != "running") as file:
            json.dump(entry.to_dict(), file, indent=1)

    @contextmanager
    def entry(self, resources: Mapping) -> Iterator[Entry]:
        """The running entry of the submission that nbgrader's ``resources`` name, to change."""
        where = resources["nbgrader"]
        entry = self.read(where["assignment"], where["student"])
        entry = entry or Entry(where["assignment"], where["student"])
        yield entry
        self.write(entry)

    def note(self, resources: Mapping, sentence: str) -> None:
        with self.entry(resources) as entry:
            if sentence not in entry.notes:
                entry.notes.append(sentence)

    def entries(self, assignment: str) -> Iterator[Entry]:
        """All readable entries of an assignment, by student."""
        for path in sorted((self.folder / assignment).glob("*.json")):
            if entry := self.read(assignment, path.stem):
                yield entry

    @contextmanager
    def lock(self, assignment: str, student: str) -> Iterator[bool]:
        """Hold a submission against other graders; yields False when another holds it."""
        path = self.path(assignment, student).with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
