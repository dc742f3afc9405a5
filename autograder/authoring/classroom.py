"""A sample class, made from an exercise's own sources: what grading has to survive."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from autograder.core.exercise import find
from autograder.core.sampler import Sampler
from autograder.misconceptions.corpus import CORPUS, Attempt, read_corpus
from autograder.notebooks.cells import exercises_of

BROKEN = (
    "syntax_error",
    "os_exit",
    "edited_graded_cell",
    "not_a_notebook",
    "deleted_graded_cell",
    "prints_100_mb",
    "duplicated_cell",
    "empty_notebook",
    "endless_loop",
)
"""Who breaks things, the most telling first."""


@dataclass(frozen=True)
class Submission:
    """What one learner hands in, and the points it must earn for each exercise."""

    student: str
    content: bytes
    expected: dict[str, float]

    @property
    def score(self) -> float:
        return sum(self.expected.values())


class Classroom:
    """Submissions for one chapter. ``solution`` and ``release`` are nbgrader's two notebooks."""

    def __init__(self, solution: NotebookNode, release: NotebookNode, attempts: list[Attempt]) -> None:
        self.solution, self.release, self.attempts = solution, release, attempts
        names = [name for _, name, _ in exercises_of(solution)]
        self.points = {name: find(name).points for name in names}

    def submissions(self) -> Iterator[Submission]:
        yield self._whole("solution", self._answered({}))
        yield Submission("untouched", _bytes(self.release), dict.fromkeys(self.points, 0.0))
        yield from self._rounds("mistakes", [a for a in self.attempts if a.kind == "wrong"])
        yield from self._rounds("alternative", [a for a in self.attempts if a.kind == "right"])
        yield from self._broken_answers()
        yield from self._broken_notebooks()

    def _rounds(self, prefix: str, attempts: list[Attempt]) -> Iterator[Submission]:
        """The n-th attempt at every exercise together, until each attempt was handed in once."""
        by_exercise: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            by_exercise.setdefault(attempt.function, []).append(attempt)
        for number in range(max(map(len, by_exercise.values()), default=0)):
            chosen = {name: some[number] for name, some in by_exercise.items() if number < len(some)}
            cells = {name: attempt.source for name, attempt in chosen.items()}
            expected = {name: self._left(name, chosen) for name in self.points}
            yield Submission(f"{prefix}_{number + 1}", _bytes(self._answered(cells)), expected)

    def _left(self, exercise: str, chosen: dict[str, Attempt]) -> float:
        attempt = chosen.get(exercise.partition(".")[2])
        lost = attempt.loses if attempt else ()
        return sum(c.points for c in find(exercise).criteria if c.name not in lost)

    def _broken_answers(self) -> Iterator[Submission]:
        """Each spoils the first exercise; what follows a dead kernel is lost with it. A rank that exits dies alone."""
        first = next(iter(self.points))
        in_ranks = any(case.ranks for case in find(first).cases(Sampler(0)))
        function = first.partition(".")[2]
        for student, body, kernel_survives in (
            ("syntax_error", "return (", True),
            ("endless_loop", "while True: pass", True),
            ("os_exit", "import os; os._exit(0)", in_ranks),
            ("prints_100_mb", "print('x' * 100_000_000)", False),
        ):
            source = f"def {function}(*arguments):\n    {body}"
            expected = {
                name: 0.0 if name == first or not kernel_survives else points for name, points in self.points.items()
            }
            yield Submission(student, _bytes(self._answered({function: source})), expected)

    def _broken_notebooks(self) -> Iterator[Submission]:
        for student, change in (
            ("deleted_graded_cell", _delete_graded_cell),
            ("edited_graded_cell", _edit_graded_cell),
            ("duplicated_cell", _duplicate_graded_cell),
        ):
            notebook = self._answered({})
            change(notebook)
            yield self._whole(student, notebook)
        nothing = dict.fromkeys(self.points, 0.0)
        yield Submission("empty_notebook", _bytes(new_notebook()), nothing)
        yield Submission("not_a_notebook", b"%PDF-1.7\nnot a notebook\n", nothing)

    def _whole(self, student: str, notebook: NotebookNode) -> Submission:
        return Submission(student, _bytes(notebook), dict(self.points))

    def _answered(self, cells: dict[str, str]) -> NotebookNode:
        """The release with every solution filled in, those named in ``cells`` by other text."""
        answers = {_grade_id(cell): cell.source for cell in self.solution.cells} | cells
        notebook = nbformat.from_dict(self.release)
        notebook = nbformat.reads(nbformat.writes(notebook), as_version=4)
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = answers[_grade_id(cell)]
        return notebook


def _grade_id(cell: NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _graded(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("points")]


def _delete_graded_cell(notebook: NotebookNode) -> None:
    notebook.cells.remove(_graded(notebook)[0])


def _edit_graded_cell(notebook: NotebookNode) -> None:
    _graded(notebook)[0].source = "print('full marks')"


def _duplicate_graded_cell(notebook: NotebookNode) -> None:
    notebook.cells.append(nbformat.from_dict(_graded(notebook)[0]))


def _bytes(notebook: NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode()


def sample(submissions: list[Submission], number: int) -> list[Submission]:
    """Four of a class: the solution, the untouched starter, a mistake, and the ``number``-th way to break things."""
    by_student = {one.student: one for one in submissions}
    return [by_student[student] for student in ("solution", "untouched", "mistakes_1", BROKEN[number % len(BROKEN)])]


def write_class(course: Path, exercises: Path, chapter: str, number: int | None = None) -> list[Submission]:
    """Hand the class in to ``course``, with a ``number`` its sample alone; one already there and equal is left alone."""
    solution = nbformat.read(course / "source" / chapter / f"{chapter}.ipynb", as_version=4)
    release = nbformat.read(course / "release" / chapter / f"{chapter}.ipynb", as_version=4)
    attempts = read_corpus(exercises / chapter / CORPUS)
    submissions = list(Classroom(solution, release, attempts).submissions())
    submissions = submissions if number is None else sample(submissions, number)
    for submission in submissions:
        _hand_in(submission, course / "submitted" / submission.student / chapter, chapter)
    return submissions


def _hand_in(submission: Submission, folder: Path, chapter: str) -> None:
    path = folder / f"{chapter}.ipynb"
    if path.exists() and path.read_bytes() == submission.content:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(submission.content)
    now = datetime.now(UTC)
    (folder / "timestamp.txt").write_text(now.strftime("%Y-%m-%d %H:%M:%S.%f UTC"))
