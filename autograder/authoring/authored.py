"""A graded exercise with its author's material (notebook, corpus, misconceptions, record), and how its notebook is run."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode

from autograder.authoring.clauses import Statement, statement
from autograder.authoring.drawn import Drawn
from autograder.authoring.text import read_text_notebook
from autograder.core.exercise import Exercise, find
from autograder.core.layout import NOTEBOOK
from autograder.core.problems import Unreadable, where
from autograder.core.sampler import Sampler
from autograder.core.verdict import Verdict
from autograder.judge.observed import Observed
from autograder.judge.referee import observed_here, play_here
from autograder.judge.session import Session
from autograder.misconceptions.corpus import CORPUS, Attempt, read_corpus
from autograder.misconceptions.sentences import MISCONCEPTIONS, Said, read_misconceptions
from autograder.misconceptions.told import with_names
from autograder.notebooks.cells import cell_of, exercises_of
from autograder.notebooks.in_process import run_cell, run_notebook
from autograder.runner.scenario_runner import run_case

SEEDS = (1, 20)
RECORD = "trials.json"


class HiddenTestBroken(Exception):
    """A judge or a scenario failed; says which, and where. ``lost``: the criteria that were lost all the same."""

    def __init__(self, why: str, lost: Collection[str] = ()) -> None:
        super().__init__(why)
        self.lost = sorted(lost)


@dataclass(frozen=True, eq=False)
class AuthoredExercise:
    """A graded exercise with its author's material: notebook, cells, attempts, misconceptions, record."""

    notebook: NotebookNode
    grade_id: str
    name: str
    points: float
    attempts: tuple[Attempt, ...]
    said: Said = field(default_factory=Said)
    statement: Statement = field(default_factory=Statement)
    record: dict = field(default_factory=dict)
    folder: Path | None = None
    every: bool = False
    """Whether gates try every attempt, also those that the record knows."""
    jobs: int = 1
    """Attempts that gates try at once."""
    _namespaces: dict = field(default_factory=dict)
    _above: dict = field(default_factory=dict)
    _failed_above: dict[str, Exception] = field(default_factory=dict)
    _drawn: dict[int, Drawn] = field(default_factory=dict)

    @property
    def function(self) -> str:
        return self.name.partition(".")[2]

    @property
    def check(self) -> str:
        """The grade_id of the visible check, which stands between the solution cell and the graded one."""
        return f"{self.function}_seen"

    @cached_property
    def exercise(self) -> Exercise:
        return find(self.name)

    @property
    def criteria(self) -> set[str]:
        return {criterion.name for criterion in self.exercise.criteria}

    @property
    def mistakes(self) -> list[Attempt]:
        return self._attempts("wrong")

    @property
    def alternatives(self) -> list[Attempt]:
        return self._attempts("right")

    @property
    def cheats(self) -> list[Attempt]:
        return self._attempts("cheat")

    def _attempts(self, kind: str) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.kind == kind]

    def losses(self, attempt: Attempt) -> set[str]:
        """The criteria that an attempt is to lose."""
        return self.criteria if attempt.kind == "cheat" else set(attempt.loses)

    def begin(self, anew: bool = False) -> None:
        """Run the cells above the solution cell, once for all processes that are forked from here.

        ``anew``: also where that was done, since the card that they chose may be another by now.
        """
        if anew or not self._above:
            above, failed = run_notebook(self.notebook, {}, self.function)
            for kept, found in ((self._above, above), (self._failed_above, failed)):
                kept.clear()
                kept.update(found)

    def go_on(self, source: str, until: str | None) -> dict[str, Exception]:
        """In a process of its own: run what is left of the notebook that ``begin`` began, with ``source`` in the solution cell.

        Returns what each failing cell raised, by grade_id, of those above too. ``until``: the grade_id of the cell to stop
        at; None: to the notebook's end.
        """
        _, failed = run_notebook(self.notebook, {self.function: source}, until, above=(self.function, self._above))
        self._namespaces[source] = self._above
        return self._failed_above | failed

    def run_again(self, source: str) -> Exception | None:
        """In a process of its own that went on: once more the solution cell, with ``source``, and the visible check, which may raise."""
        run_cell(self.function, source, self._above)
        return run_cell(self.check, cell_of(self.notebook, self.check).source, self._above)

    def lost(self, source: str, seed: int, to_the_first: bool = False, until: Collection[str] = ()) -> set[str]:
        """The criteria that are not earned with ``source`` in the solution cell. Raises HiddenTestBroken.

        ``to_the_first``: no case is played after one that lost something; those not judged by then are lost too.
        ``until``: no case is played after all these are lost; those not judged by then are not lost.
        """
        played = self._played(source, seed, to_the_first, until)
        return _lost(played, until)

    def verdict(self, source: str, seed: int) -> Verdict:
        """Every criterion with ``source`` in the solution cell. Raises HiddenTestBroken."""
        return self._played(source, seed).verdict()

    def explained(self, source: str, seed: int) -> Verdict | None:
        """As :meth:`verdict`, with the misconceptions by which points were lost; None where none can be named.

        Of an exercise whose judge asks the function itself; of another see :meth:`observed`.
        """
        played = self._played(source, seed)
        named = played.explanation().named
        return with_names(played.verdict(), named) if named else None

    def observed(self, source: str, seed: int) -> Observed:
        """Facts of what a ``run.py`` called with ``source`` in the solution cell."""
        return observed_here(self.exercise, self._run(source), enumerate(self._cases(seed), 1))

    def _run(self, source: str) -> Callable[[bytes], bytes]:
        """The cells above are run once for all sources; each source has what they left in a namespace of its own."""
        if source not in self._namespaces:
            self.begin()
            above = (self.function, dict(self._above))
            self._namespaces[source], _ = run_notebook(self.notebook, {self.function: source}, self.grade_id, above)
        return lambda inputs: run_case(self.name, self._namespaces[source], inputs)

    def _cases(self, seed: int) -> Drawn:
        return self._drawn.setdefault(seed, Drawn(lambda: self.exercise.cases(Sampler(seed))))

    def _played(self, source: str, seed: int, to_the_first: bool = False, until: Collection[str] = ()) -> Session:
        played = play_here(self.name, self._run(source), None, to_the_first, until, self._cases(seed))
        if played.broken:
            raise HiddenTestBroken("; ".join(played.broken), _lost(played, until))
        return played


def _lost(played: Session, until: Collection[str]) -> set[str]:
    if until and played.lost >= set(until):
        return played.lost
    return {line.criterion for line in played.verdict().lines if line.status != "earned"}


def authored_exercises(exercises: Path) -> list[AuthoredExercise]:
    """Every graded exercise of every chapter in the folder ``exercises``. Raises Unreadable."""
    return [authored for chapter in _folders(exercises) for authored in authored_in(exercises / chapter)]


def readable(exercises: Path) -> tuple[list[AuthoredExercise], dict[str, str]]:
    """The benches that can be had, and by chapter why the others cannot: each spoils its own chapter alone."""
    found, unreadable = [], {}
    for chapter in _folders(exercises):
        try:
            found += authored_in(exercises / chapter)
        except Unreadable as why:
            unreadable[chapter] = str(why)
    return found, unreadable


def authored_in(folder: Path) -> list[AuthoredExercise]:
    """Every graded exercise of the chapter in ``folder``. Raises Unreadable."""
    text = folder / NOTEBOOK
    try:
        notebook, tagged = read_text_notebook(text), read_text_notebook(text, tags=True)
    except Exception as error:  # jupytext and YAML raise what they like
        raise Unreadable(where(error, text)) from error
    attempts, kept, found = read_corpus(folder / CORPUS), records(folder), []
    for grade_id, name, points in exercises_of(notebook):
        function = name.partition(".")[2]
        its = tuple(attempt for attempt in attempts if attempt.function == function)
        said = read_misconceptions(folder / function / MISCONCEPTIONS)
        own = (its, said, statement(tagged, function))
        found.append(AuthoredExercise(notebook, grade_id, name, points, *own, record=kept.get(name, {}), folder=folder))
    functions = {authored.function for authored in found}
    for attempt in attempts:
        if attempt.function not in functions:
            raise Unreadable(
                f"{folder / CORPUS}: {attempt.name} is an attempt at {attempt.function!r}, which the notebook does not grade"
            )
        if attempt.kind == "wrong" and attempt.loses is None:
            raise Unreadable(
                f"{folder / CORPUS}: {attempt.name} does not say what it loses: write loses=a,b at its head"
            )
    return found


def _folders(exercises: Path) -> list[str]:
    """The folders with a text notebook, or with a corpus."""
    found = (path for path in exercises.glob("*/*") if path.name in (NOTEBOOK, CORPUS))
    return sorted({path.parent.name for path in found})


def records(folder: Path) -> dict[str, dict]:
    """What was kept of the trials of a chapter's exercises, by name; empty where nothing was."""
    path = folder / RECORD
    return json.loads(path.read_text()) if path.exists() else {}
