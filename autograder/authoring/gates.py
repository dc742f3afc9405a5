"""What must hold of every exercise before it is handed out; each problem is a sentence."""

import contextlib
import io
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode

from autograder.authoring.mistakes import Attempt, load_attempts
from autograder.authoring.text import cell_of, exercises_of, read_text_notebook, solution_of, starter_of
from autograder.draw import Draw
from autograder.exercise import Exercise, find
from autograder.hidden_region import BEGIN, END, without_hidden_tests
from autograder.proctor import sit
from autograder.referee import judge_here

SEEDS = (1, 20, 300)

IDLE = {
    "returns None": "return None",
    "returns True": "return True",
    "returns an empty list": "return []",
    "returns its first argument": "return arguments[0]",
    "returns its first argument in a list": "return [arguments[0]]",
    "returns a tensor of one zero": "return torch.zeros(())",
    "refuses everything": "raise ValueError('refused')",
}
"""Answers that did no work, for any function."""


@dataclass(frozen=True, eq=False)
class Bench:
    """One graded exercise on its author's bench: its notebook, its cells, its attempts."""

    notebook: NotebookNode
    grade_id: str
    name: str
    points: float
    attempts: tuple[Attempt, ...]
    _namespaces: dict = field(default_factory=dict)

    @property
    def function(self) -> str:
        return self.name.partition(".")[2]

    @cached_property
    def exercise(self) -> Exercise:
        return find(self.name)

    @property
    def criteria(self) -> set[str]:
        return {criterion.name for criterion in self.exercise.criteria}

    @property
    def mistakes(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.loses]

    @property
    def alternatives(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if not attempt.loses]

    def lost(self, source: str, seed: int) -> set[str]:
        """The criteria that are not earned with ``source`` in the solution cell."""
        if source not in self._namespaces:
            self._namespaces[source], _ = run_notebook(self.notebook, {self.function: source}, self.grade_id)
        namespace = self._namespaces[source]
        verdict = judge_here(self.name, lambda inputs: sit(self.name, namespace, inputs), Draw(seed))
        return {line.criterion for line in verdict.lines if line.status != "earned"}


def benches(exercises: Path) -> list[Bench]:
    """A bench for each graded exercise of every chapter in the folder ``exercises``."""
    found = []
    for path in sorted(exercises.glob("*/mistakes.py")):
        attempts = load_attempts(path)
        notebook = read_text_notebook(path.with_name(f"{path.parent.name}.py"))
        for grade_id, name, points in exercises_of(notebook):
            own = tuple(attempt for attempt in attempts if attempt.exercise == name.partition(".")[2])
            found.append(Bench(notebook, grade_id, name, points, own))
    return found


def run_notebook(
    notebook: NotebookNode, answers: dict[str, str], until: str | None = None
) -> tuple[dict, dict[str, Exception]]:
    """Run every cell but the graded ones, as grading does: a cell that fails stops no other.

    ``answers``: sources for solution cells, by grade_id; the author's own for the others.
    ``until``: the grade_id of the cell to stop at. Returns the namespace, and what each failing cell raised by grade_id.
    """
    namespace: dict = {"__name__": "__main__"}
    failed: dict[str, Exception] = {}
    for grade_id, source in _sources(notebook, answers, until):
        if error := _run_cell(grade_id, source, namespace):
            failed[grade_id] = error
    return namespace, failed


def _run_cell(grade_id: str, source: str, namespace: dict) -> Exception | None:
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(source, _readable(grade_id, source), "exec"), namespace)
        except Exception as error:
            return error
    return None


def _readable(grade_id: str, source: str) -> str:
    """A file name under which the text of a cell is found: a kernel is compiled from its source."""
    name = f"<{grade_id} {hash(source):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return name


def _sources(
    notebook: NotebookNode, answers: dict[str, str], until: str | None
) -> Iterator[tuple[str, str]]:
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if until is not None and nbgrader.get("grade_id") == until:
            return
        if cell.cell_type == "code" and not nbgrader.get("grade"):
            grade_id = nbgrader.get("grade_id", cell["id"])
            yield grade_id, answers.get(grade_id, cell.source)


def starter_earns_nothing(bench: Bench) -> Iterator[str]:
    starter = starter_of(bench.notebook, bench.function)
    if f"def {bench.function}(" not in starter or "raise NotImplementedError" not in starter:
        yield f"the starter is not a function {bench.function} that raises NotImplementedError"
    if kept := bench.criteria - bench.lost(starter, SEEDS[0]):
        yield f"the starter earns {_listed(kept)}"


def solution_earns_everything(bench: Bench) -> Iterator[str]:
    source = solution_of(bench.notebook, bench.function)
    for seed in SEEDS:
        if lost := bench.lost(source, seed):
            yield f"the solution loses {_listed(lost)} with seed {seed}"
    for grade_id, error in run_notebook(bench.notebook, {})[1].items():
        yield f"the solved notebook fails in {grade_id}: {type(error).__name__}: {error}"


def solution_passes_its_check_after_every_mistake(bench: Bench) -> Iterator[str]:
    """A learner tries again in the same kernel: what a wrong try left there is not held against the next."""
    namespace, _ = run_notebook(bench.notebook, {}, bench.grade_id)
    check = f"{bench.function}_seen"
    for attempt in bench.mistakes:
        for source in (attempt.as_cell(), solution_of(bench.notebook, bench.function)):
            _run_cell(bench.function, source, namespace)
            error = _run_cell(check, cell_of(bench.notebook, check).source, namespace)
        if error:
            yield f"after {attempt.name} the solution fails in {check}: {type(error).__name__}: {error}"


def mistakes_lose_what_they_name(bench: Bench) -> Iterator[str]:
    for attempt in bench.mistakes:
        if unknown := set(attempt.loses) - bench.criteria:
            yield f"{attempt.name} is to lose {_listed(unknown)}: {bench.name} has no such criterion"
        yield from _differences(bench, attempt)


def alternatives_earn_everything(bench: Bench) -> Iterator[str]:
    if not bench.alternatives:
        yield "no right solution is written another way"
    for attempt in bench.alternatives:
        yield from _differences(bench, attempt)


def _differences(bench: Bench, attempt: Attempt) -> Iterator[str]:
    """Every seed must lose exactly what is named: so two runs with other seeds agree."""
    for seed in SEEDS:
        lost = bench.lost(attempt.as_cell(), seed)
        if lost != set(attempt.loses):
            yield f"{attempt.name} loses {_listed(lost)} with seed {seed}, not {_listed(attempt.loses)}"


def idle_answers_earn_nothing(bench: Bench) -> Iterator[str]:
    for what, body in IDLE.items():
        source = f"def {bench.function}(*arguments):\n    {body}"
        if kept := bench.criteria - bench.lost(source, SEEDS[0]):
            yield f"a function that {what} earns {_listed(kept)}"


def every_criterion_is_lost_by_a_mistake(bench: Bench) -> Iterator[str]:
    named = {criterion for attempt in bench.mistakes for criterion in attempt.loses}
    if never := bench.criteria - named:
        yield f"no mistake loses {_listed(never)}"


def points_are_those_of_the_criteria(bench: Bench) -> Iterator[str]:
    if bench.points != bench.exercise.points:
        yield f"the cell is worth {bench.points:g} points, its criteria {bench.exercise.points:g}"


def statement_names_the_function(bench: Bench) -> Iterator[str]:
    """Some text above the solution cell says how the function is called."""
    above: list[str] = []
    for cell in bench.notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == bench.function:
            break
        above += [cell.source] if cell.cell_type == "markdown" else []
    if not re.search(rf"`{bench.function}\([^`]*\)`", "\n".join(above)):
        yield f"no text above the solution cell shows how `{bench.function}(...)` is called"


def hidden_part_is_one_line(bench: Bench) -> Iterator[str]:
    """And the visible rest of the graded cell is comments alone, so it earns nothing by itself."""
    source = cell_of(bench.notebook, bench.grade_id).source
    hidden = f'{BEGIN}\nimport autograder; autograder.grade("{bench.name}")\n{END}'
    if source.count(BEGIN) != 1 or hidden not in source:
        yield "the graded cell's hidden part is not the one line that names the exercise"
    if not all(line.startswith("#") for line in without_hidden_tests(source).splitlines()):
        yield "the visible part of the graded cell is more than comments"


def _listed(names: object) -> str:
    return ", ".join(sorted(names)) or "nothing"


GATES = (
    starter_earns_nothing,
    solution_earns_everything,
    solution_passes_its_check_after_every_mistake,
    mistakes_lose_what_they_name,
    alternatives_earn_everything,
    idle_answers_earn_nothing,
    every_criterion_is_lost_by_a_mistake,
    points_are_those_of_the_criteria,
    statement_names_the_function,
    hidden_part_is_one_line,
)


def gate(bench: Bench) -> list[str]:
    """Every problem of one exercise, each a sentence; empty when it may be handed out."""
    return [f"{bench.name}: {problem}" for check in GATES for problem in check(bench)]
