"""``python -m autograder explain ASSIGNMENT``: names the misconceptions for which known wrong functions have to be played.

Grading keeps what that needs in the ledger, so that it may cost its time when everybody has their points.
"""

import queue
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import nbformat
from tqdm import tqdm

from autograder.core.exercise import find
from autograder.core.ledger import Entry, Ledger
from autograder.core.printable import printable
from autograder.core.replaced import replaced
from autograder.core.verdict import Verdict
from autograder.judge.play_forms import Player, Request, explained_by_play
from autograder.misconceptions.told import with_names
from autograder.notebooks.run import show

MOST_SECONDS = 300
"""Of the clock, for one function, on a machine that may be busy: what a form may take of the processor is bound elsewhere."""


@dataclass(frozen=True)
class Told:
    """What became of one submission: how many functions were played, and how many of them got a name."""

    student: str
    played: int = 0
    named: int = 0
    held: bool = False


def run(course: Path, assignment: str, jobs: int) -> int:
    """Returns the exit status: 2 where nothing was graded, 130 where it was interrupted, which loses nothing."""
    entries = [entry for entry in Ledger(course).entries(assignment) if entry.state == "graded"]
    if not entries:
        print(f"autograder explain: nothing of {assignment!r} was graded in {course}", file=sys.stderr)
        return 2
    students = [entry.student for entry in entries if entry.unexplained]
    try:
        print(summary(assignment, _watched(course, assignment, students, jobs)))
    except LookupError as why:
        print(f"autograder explain: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nautograder explain: interrupted; type it again to go on", file=sys.stderr)
        return 130
    return 0


def _watched(course: Path, assignment: str, students: list[str], jobs: int) -> list[Told]:
    with ThreadPoolExecutor(jobs) as pool, closing(Players(jobs)) as players:
        one = lambda student: explain(course, assignment, student, players)
        done = tqdm(pool.map(one, students), total=len(students), unit="submission", dynamic_ncols=True)
        try:
            return list(done)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class Players:
    """As many as there are jobs; who asks waits for one that is free."""

    def __init__(self, jobs: int) -> None:
        self._all = [Player() for _ in range(jobs)]
        self._free: queue.SimpleQueue[Player] = queue.SimpleQueue()
        for player in self._all:
            self._free.put(player)

    def names(self, request: Request, seconds: float) -> dict[str, str]:
        player = self._free.get()
        try:
            return player.names(request, seconds)
        finally:
            self._free.put(player)

    def close(self) -> None:
        for player in self._all:
            player.close()


def explain(course: Path, assignment: str, student: str, players: Players) -> Told:
    """Writes the names into the graded notebook, then into the ledger: after a kill in between it is done once more."""
    ledger = Ledger(course)
    with ledger.lock(assignment, student) as mine:
        entry = ledger.read(assignment, student) if mine else None
        if entry is None or entry.state != "graded":
            return Told(student, held=True)
        found, played = dict(_found(entry, players)), len(entry.unexplained)
        _show(course / "autograded" / student / assignment, found)
        entry.verdicts |= found
        entry.unexplained = {}
        ledger.write(entry)
        return Told(student, played, len(found))


def _found(entry: Entry, players: Players) -> Iterator[tuple[str, Verdict]]:
    """By grade_id the verdicts in which something has a name now."""
    for grade_id, one in entry.unexplained.items():
        verdict = entry.verdicts[grade_id]
        outline = find(verdict.exercise).outline
        if named := explained_by_play(outline, one.seed, verdict.lost, one.facts, MOST_SECONDS, players.names):
            yield grade_id, with_names(verdict, named)


def _show(folder: Path, found: dict[str, Verdict]) -> None:
    """In the outputs of the graded cells, which a feedback page shows."""
    for path in sorted(folder.glob("*.ipynb")) if found else ():
        notebook = nbformat.read(path, as_version=4)
        cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
        for grade_id in found.keys() & cells.keys():
            show(cells[grade_id], found[grade_id])
        with replaced(path) as file:
            nbformat.write(notebook, file)


def summary(assignment: str, done: list[Told]) -> str:
    """Lines of text."""
    named, played = sum(one.named for one in done), sum(one.played for one in done)
    lines = [f"functions with a misconception that is named now: {named} of {played}, in {len(done)} submissions"]
    if named:
        lines.append(f"  pages that show it are written again: nbgrader generate_feedback {assignment}")
    held = sorted(printable(one.student) for one in done if one.held)
    return "\n".join(lines + [f"  skipped: a grader has it: {len(held)} ({', '.join(held)})"] * bool(held))
