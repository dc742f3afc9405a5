"""``taken_in``: whatever lies in a submission, made into the notebook that is graded."""

from collections.abc import Callable, Iterator
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
from autograder.intake.names import facts
from autograder.intake.order import counting_cell, in_order
from autograder.intake.put_back import put_back
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released, same_text

MOST_READ, MOST_READ_BYTES = 30, 128 * 1024**2
"""Files that are opened in search of a notebook."""


@dataclass(frozen=True)
class Read:
    """A file's cells. ``name``: what notes call it. ``notes``: what was odd about it.
    ``member``: its name in the archive at ``path``, empty where that is the notebook itself.
    """

    path: Path
    name: str
    cells: list[NotebookNode]
    notes: tuple[str, ...] = ()
    member: str = ""

    def answers(self, released: Released) -> int:
        """How many of the release's functions it holds work for."""
        code = [cell.source for cell in self.cells if cell.cell_type == "code"]
        return len({answer for source in code for answer in released.answered_by(source)})

    def is_untouched(self, released: Released) -> bool:
        """Whether its code is the release's, or starters alone."""
        return all(_is_given(cell.source, released) for cell in self.cells if cell.cell_type == "code")

    def held(self, released: Released) -> int:
        """How many of the release's cells it holds."""
        return len(recognised(self.cells, released).of)


def _is_given(source: str, released: Released) -> bool:
    held = facts(source).held
    return (
        bool(held)
        and not any(written for _, written in held)
        or any(same_text(source, text) for text in released.texts.values())
    )


def read(path: Path, name: str) -> Read:
    """Raises NotGradable, FileNotFoundError among what the file system raises."""
    return _read(path, name, content(path, name))


def _read(path: Path, name: str, raw: bytes) -> Read:
    text, encoding = decoded(raw)
    notes = (f"The notebook is not in UTF-8, it was read as {encoding}.",) if encoding else ()
    try:
        return Read(path, name, cells_in(text), notes)
    except NotGradable:
        raise
    except Exception as error:  # anything can lie under a notebook's name
        raise NotGradable(f"The file is not a Jupyter notebook ({type(error).__name__}): hand in the .ipynb.") from None


def graded_form(found: Read, released: Released) -> tuple[NotebookNode, list[str]]:
    """The notebook that is run, hidden tests in it; notes for the learner. ``found`` is used up.

    Raises NotGradable where nothing in it is the release's.
    """
    known = recognised(found.cells, released)
    if found.cells and not known.seen & released.its_own and not found.answers(released):
        raise NotGradable("The notebook holds no exercise of this assignment: was another one handed in?")
    cells, notes, numbers = put_back(found.cells, released, known)
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
    cells, _, _ = put_back([new_markdown_cell(f"**Not graded.** {why}")], released, Recognised())
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
            if not asked_for.is_untouched(released):
                return _beside_others(asked_for, handed, expected, released, others)
    best = _best(handed, expected, released, others)
    if best is not None:
        return _instead(best, expected, asked_for, problem)
    if asked_for is not None:
        return asked_for
    raise problem or NotGradable(_nothing_found(handed, expected))


def _beside_others(asked_for: Read, handed: Handed, expected: Path, released: Released, others: frozenset[str]) -> Read:
    """What was asked for counts; a second notebook with more answers is named."""
    answers = asked_for.answers(released)
    if answers == len(released.functions):
        return asked_for
    other = _best(handed, expected, released, others)
    if other is None or ".ipynb" not in other.name or (more := other.answers(released)) <= answers:
        return asked_for
    note = f"`{asked_for.name}` was graded, with answers to {answers} exercises; `{other.name}` beside it has {more}."
    return replace(asked_for, notes=(*asked_for.notes, note))


def _best(handed: Handed, expected: Path, released: Released, others: frozenset[str]) -> Read | None:
    """Of the files that hold work the one with most of it; copies in an editor's folders come last, then the newest first.

    Others that hold work, and are no such copies, are named in its notes.
    """
    ranked = []
    for found in _readable(handed, expected, others):
        if answers := found.answers(released):
            is_a_copy = any(part.startswith((".", "__")) for part in Path(found.name).parts)
            written = found.path.stat().st_mtime_ns
            ranked.append(((not is_a_copy, ".ipynb" in found.name, answers, found.held(released), written), found))
    ranked.sort(key=lambda one: one[0], reverse=True)
    if not ranked:
        return None
    also = [found.name for rank, found in ranked[1:] if rank[:2] == ranked[0][0][:2]]
    return replace(ranked[0][1], notes=(*ranked[0][1].notes, *_also(also)))


def _also(names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(f"`{name}`" for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"Other files hold answers too, and were not graded: {shown}."]


def _readable(handed: Handed, expected: Path, others: frozenset[str]) -> Iterator[Read]:
    """What may be the notebook, what is called like one first, and what lies in archives last; a bounded part of it."""
    left = MOST_READ_BYTES
    for path, member, raw in islice(_candidates(handed, expected, others), MOST_READ):
        left -= path.stat().st_size
        if left < 0:
            return
        name = f"{handed.name(path)}/{printable(member)}" if member else handed.name(path)
        with suppress(NotGradable, OSError):
            yield replace(_read(path, name, raw()), member=member)


def _candidates(
    handed: Handed, expected: Path, others: frozenset[str]
) -> Iterator[tuple[Path, str, Callable[[], bytes]]]:
    paths = [path for path in handed.may_be_notebooks() if path != expected and path.stem not in others]
    like = lambda path: (expected.stem not in path.name.lower(), ".ipynb" not in path.name, len(path.parts))
    for path in sorted(paths, key=like):
        yield path, "", lambda path=path: content(path, handed.name(path))
    for archive in handed.archives():
        for name, raw in notebooks_in(archive):
            yield archive, name, lambda raw=raw: raw


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
