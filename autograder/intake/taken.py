"""``taken_in``: whatever lies in a submission, made into the notebook that is graded."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from uuid import uuid4

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from autograder.core.report import printable
from autograder.intake.archives import notebooks_in
from autograder.intake.encodings import decoded
from autograder.intake.files import TIMESTAMP, Handed, content, may_be_one
from autograder.intake.forms import cells_in
from autograder.intake.identity import Recognised, recognised
from autograder.intake.order import counting_cell, in_order
from autograder.intake.put_back import put_back
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released

MOST_READ = 30
"""Files that are opened in search of a notebook."""


@dataclass(frozen=True)
class Read:
    """A file's cells. ``name``: what notes call it. ``notes``: what was odd about it."""

    path: Path
    name: str
    cells: list[NotebookNode]
    notes: tuple[str, ...] = ()

    def answers(self, released: Released) -> int:
        """How many of the release's functions it holds work for."""
        code = [cell.source for cell in self.cells if cell.cell_type == "code"]
        return sum(any(released.is_answer(answer, source) for source in code) for answer in released.functions)

    def held(self, released: Released) -> int:
        """How many of the release's cells it holds."""
        return len(recognised(self.cells, released).of)


def read(path: Path, name: str) -> Read:
    """Raises NotGradable, FileNotFoundError among what the file system raises."""
    return _read(path, name, content(path, name))


def _read(path: Path, name: str, raw: bytes) -> Read:
    text, encoding = decoded(raw)
    notes = (f"The notebook is not in UTF-8, it was read as {encoding}.",) if encoding else ()
    return Read(path, name, cells_in(text), notes)


def graded_form(found: Read, released: Released) -> tuple[NotebookNode, list[str]]:
    """The notebook that is run, hidden tests in it; notes for the learner. ``found`` is used up.

    Raises NotGradable where nothing in it is the release's.
    """
    known = recognised(found.cells, released)
    if found.cells and not known.of and not found.answers(released):
        raise NotGradable("The notebook holds no cell of this assignment: was another one handed in?")
    numbers = {id(cell): index + 1 for index, cell in enumerate(found.cells)}
    cells, notes = put_back(found.cells, released, known)
    if known.without_metadata:
        notes.insert(0, _without_metadata(known.without_metadata))
    cells, moved = in_order(cells, released, numbers)
    _give_each_an_id_of_its_own(cells)
    return new_notebook(cells=cells), [*found.notes, *notes, *moved]


def answers_in(found: Read, released: Released) -> dict[str, str]:
    """The source that counts for each answer in code, by its grade_id. ``found`` is used up. Raises NotGradable."""
    notebook, _ = graded_form(found, released)
    counting = {answer: counting_cell(notebook.cells, released, answer) for answer in released.functions}
    return {answer: cell.source for answer, cell in counting.items() if cell is not None}


def not_graded(released: Released, why: str) -> NotebookNode:
    """What stands in the place of a notebook of which nothing could be made: the release, and why nothing was run."""
    cells, _ = put_back([new_markdown_cell(f"**Not graded.** {why}")], released, Recognised())
    return new_notebook(cells=cells, metadata={"autograder": {"not_graded": why}})


def why_not_graded(notebook: NotebookNode) -> str:
    """Empty for all others."""
    return notebook.metadata.get("autograder", {}).get("not_graded", "")


def found_in(handed: Handed, name: str, released: Released, others: frozenset[str] = frozenset()) -> Read:
    """The notebook called ``name`` (without suffix), or what holds the work where that is called otherwise.

    ``others``: the names of the assignment's other notebooks. Raises NotGradable.
    """
    expected, problem = handed.folder / f"{name}.ipynb", None
    asked_for = None
    if expected.exists() or expected.is_symlink():
        try:
            asked_for = read(expected, expected.name)
        except NotGradable as error:
            problem = error
        else:
            if asked_for.answers(released):
                return asked_for
    best = _best(handed, expected, released, others)
    if best is not None:
        return _instead(best, expected, asked_for, problem)
    if asked_for is not None:
        return asked_for
    raise problem or NotGradable(_nothing_found(handed, expected))


def _best(handed: Handed, expected: Path, released: Released, others: frozenset[str]) -> Read | None:
    """Of the files that hold work the one with most of it; copies in an editor's folders come last, then the newest first."""
    ranked = []
    for found in islice(_readable(handed, expected, others), MOST_READ):
        if answers := found.answers(released):
            is_a_copy = any(part.startswith((".", "__")) for part in Path(found.name).parts)
            written = found.path.stat().st_mtime_ns
            ranked.append(((not is_a_copy, ".ipynb" in found.name, answers, found.held(released), written), found))
    return max(ranked, key=lambda one: one[0], default=(None, None))[1]


def _readable(handed: Handed, expected: Path, others: frozenset[str]) -> Iterator[Read]:
    """What may be the notebook, what is called like one first, and what lies in archives last."""
    paths = [path for path in handed.may_be_notebooks() if path != expected and path.stem not in others]
    for path in sorted(paths, key=lambda path: (".ipynb" not in path.name, len(path.parts))):
        with suppress(NotGradable, OSError):
            yield read(path, handed.name(path))
    for archive in handed.archives():
        for name, raw in notebooks_in(archive):
            with suppress(NotGradable):
                yield _read(archive, f"{handed.name(archive)}/{printable(name)}", raw)


def _instead(found: Read, expected: Path, asked_for: Read | None, problem: NotGradable | None) -> Read:
    if asked_for is not None:
        note = f"`{expected.name}` holds no answer, `{found.name}` does: that was graded."
    elif problem is not None:
        note = f"{problem} `{found.name}` was graded instead."
    else:
        note = f"The submission holds no `{expected.name}`: `{found.name}` was graded."
    return replace(found, notes=(note, *found.notes))


def _nothing_found(handed: Handed, expected: Path) -> str:
    names = [handed.name(path) for path in handed.paths if may_be_one(path) and path.name != TIMESTAMP]
    found = f"found {', '.join(f'`{name}`' for name in names[:10])}" if names else "found no notebook at all"
    return f"The submission holds no `{printable(expected.name)}` ({found}): hand it in under this name."


def _give_each_an_id_of_its_own(cells: list[NotebookNode]) -> None:
    seen: set[str] = set()
    for cell in cells:
        if cell["id"] in seen:
            cell["id"] = uuid4().hex[:8]
        seen.add(cell["id"])


def _without_metadata(grade_ids: list[str]) -> str:
    names = ", ".join(f"`{grade_id}`" for grade_id in grade_ids)
    return f"Cells had lost the course's metadata and were known by what they hold: {names}. That costs nothing."
