"""Runs the hidden tests on one notebook, in the grader's own sandbox, without a course or a gradebook."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode

from autograder.core.flag import Flag
from autograder.core.marks import Mark, Marks
from autograder.core.printable import visible
from autograder.core.report import reasons
from autograder.core.unexplained import Unexplained
from autograder.core.verdict import Verdict
from autograder.intake.brought import with_what_it_brings
from autograder.intake.files import copy, handed_in, taken_along
from autograder.intake.graded_form import graded_form
from autograder.intake.released import Released
from autograder.notebooks.run import RunGraded
from autograder.sandbox import sandbox
from autograder.selfcheck.chapters import Chapter, chapters
from autograder.selfcheck.held import held
from autograder.selfcheck.reading import CannotMark, chapter_of, read


@dataclass
class Marked:
    """What the hidden tests found. ``verdicts`` by function, in the notebook's order.

    ``notes``: sentences on what happened on the way. ``errors``: what cells raised, by the
    function that they belong to, "" where to none.
    """

    chapter: Chapter
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: dict[str, list[str]] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return sum(verdict.score for verdict in self.verdicts.values())

    @property
    def max_score(self) -> float:
        return sum(verdict.max_score for verdict in self.verdicts.values())

    def marks(self) -> Marks:
        """As a terminal shows them."""
        of = (mark_of(function, verdict) for function, verdict in self.verdicts.items())
        return Marks(tuple(of), (*self.notes, *self.errors.get("", [])))


def mark_of(function: str, verdict: Verdict) -> Mark:
    return Mark(function, verdict.score, verdict.max_score, tuple(reasons(verdict)))


class _Sheet:
    """In memory; ``tell`` hears of each function as soon as it has its verdict."""

    def __init__(self, marked: Marked, tell: Callable[[str, Verdict], None]) -> None:
        self._marked, self._tell = marked, tell

    def note(self, sentence: str) -> None:
        self._marked.notes.append(sentence)

    def record(self, grade_id: str, verdict: Verdict) -> None:
        function = self._marked.chapter.functions[grade_id]
        self._marked.verdicts[function] = verdict
        self._tell(function, verdict)

    def explain(self, grade_id: str, verdict: Verdict) -> None:
        self._marked.verdicts[self._marked.chapter.functions[grade_id]] = verdict

    def keep(self, grade_id: str, unexplained: Unexplained) -> None:
        """There is no later."""

    def leave(
        self, outcome: str, incidents: list[str], broken: list[str], tracebacks: list[str], flags: list[Flag]
    ) -> None:
        """A learner's own flags are left out: nobody looks at them, and they cost nothing."""
        self._marked.notes += [f"The tests met something odd: {incident}." for incident in incidents]
        self._marked.notes += [f"A hidden test broke, points may be due: {sentence}." for sentence in broken]


class _RunMarked(RunGraded):
    def __init__(self, sheet: _Sheet, **settings) -> None:
        super().__init__(**settings)
        self._given = sheet

    def sheet(self, resources: ResourcesDict) -> _Sheet:
        return self._given

    def unsandboxed(self, because: str) -> str:
        return NO_SANDBOX


NO_SANDBOX = "This ran without a sandbox: your code could read and write what you can."


def mark(
    path: Path,
    sandboxed: bool = True,
    begin: Callable[[Chapter], None] = lambda chapter: None,
    tell: Callable[[str, Verdict], None] = lambda function, verdict: None,
    known: list[Chapter] | None = None,
) -> Marked:
    """Run the notebook at ``path`` from its first cell to its last, and its hidden tests. Raises CannotMark.

    The file is only read. ``sandboxed``: demanded where the system has one (Linux), see :func:`require_sandbox`.
    ``begin`` hears of the chapter before anything runs, ``tell`` of each function's verdict. ``known``: one of these chapters'
    exercises are marked (default: all that there are).
    """
    found = read(path)
    chapter = chapter_of(found, known or chapters())
    if sandboxed:
        require_sandbox()
    begin(chapter)
    marked = Marked(chapter)
    _say_whose(marked, path)
    released, others = held(found, Released(chapter.released()), chapter.functions)
    if others:
        names = ", ".join(f"`{chapter.functions[grade_id]}`" for grade_id in others)
        marked.notes.append(f"Not in this notebook, and not marked: {names}.")
    notebook, notes = graded_form(with_what_it_brings(found, released), released)
    files, left_out = taken_along(handed_in(found.path.parent))
    marked.notes += notes + left_out
    policy = "required" if sandboxed and sys.platform == "linux" else "off"
    with tempfile.TemporaryDirectory() as beside:
        marked.notes += copy(files, found.path.parent, Path(beside))
        runner = _RunMarked(_Sheet(marked, tell), sandbox=policy)
        try:
            runner.preprocess(notebook, {"metadata": {"path": beside}})
        except (OSError, RuntimeError) as error:
            advice = (
                " Where the notebook works in your own JupyterLab, --no-sandbox may help."
                if policy == "required"
                else ""
            )
            raise CannotMark(f"The notebook could not be run: {str(error).rstrip('.')}.{advice}") from error
    marked.errors = _errors(notebook, chapter)
    return marked


def require_sandbox() -> None:
    """Raises CannotMark on Linux where bubblewrap is missing or does not work; other systems have none."""
    if sys.platform == "linux" and (problem := sandbox.problem()):
        raise CannotMark(
            f"Notebooks run in a sandbox, and {problem}. Install it, or add --no-sandbox: the code is your own, and "
            "can then read and write what you can."
        )


def _say_whose(marked: Marked, path: Path) -> None:
    """A file that is called like another chapter's is marked all the same."""
    others = {chapter.name for chapter in chapters()} - {marked.chapter.name}
    if path.stem in others:
        marked.notes.append(f"`{path.name}` holds the exercises of `{marked.chapter.name}`: those were marked.")


def _errors(notebook: NotebookNode, chapter: Chapter) -> dict[str, list[str]]:
    """What the cells that are not graded have raised."""
    found: dict[str, list[str]] = {}
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        function = next((name for name in chapter.functions.values() if grade_id in (name, f"{name}_seen")), "")
        if cell.cell_type == "code" and grade_id not in chapter.functions:
            found.setdefault(function, []).extend(_raised(cell, grade_id))
    return {function: sentences for function, sentences in found.items() if sentences}


def _raised(cell: NotebookNode, grade_id: str) -> list[str]:
    which = (
        f"The cell `{grade_id}`" if grade_id else f"The cell that begins `{cell.source.strip().splitlines()[0][:60]}`"
    )
    return [
        visible(f"{which} raised {output.ename}: {output.evalue}"[:600])
        for output in cell.outputs
        if output.output_type == "error"
    ]
