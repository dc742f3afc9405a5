"""A learner's notebook file, and whose exercises it holds; what is wrong with it, in a sentence."""

from pathlib import Path

from nbformat import NotebookNode

from autograder.notebooks.reading import MAX_NOTEBOOK_BYTES, parsed
from autograder.selfcheck.chapters import Chapter


class CannotMark(Exception):
    """Nothing was marked; says why and what to do."""


def read(path: Path) -> NotebookNode:
    """The sources of the cells, in a fresh notebook. Raises CannotMark."""
    if not path.exists():
        others = sorted(other.name for other in path.parent.glob("*.ipynb")) if path.parent.is_dir() else []
        here = f" The notebooks there are {', '.join(others[:10])}." if others else ""
        raise CannotMark(f"There is no file {path}.{here}")
    if path.is_dir():
        raise CannotMark(f"{path} is a folder: name the notebook in it.")
    if path.stat().st_size > MAX_NOTEBOOK_BYTES:
        raise CannotMark(f"{path.name} is larger than {MAX_NOTEBOOK_BYTES >> 20} MiB: clear its outputs and save it.")
    try:
        return parsed(path)
    except OSError as error:
        raise CannotMark(f"{path.name} cannot be read: {error.strerror}.") from None
    except Exception:
        # Anything can lie under this name, and nbformat raises whatever it trips over.
        raise CannotMark(
            f"{path.name} is not a Jupyter notebook: name the .ipynb file that you downloaded from the chapter's page."
        ) from None


def chapter_of(notebook: NotebookNode, known: list[Chapter]) -> Chapter:
    """The chapter most of whose marked cells the notebook holds. Raises CannotMark."""
    held = {_grade_id(cell) for cell in notebook.cells}
    found = {chapter.name: len(_own(chapter) & held) for chapter in known}
    best = max(known, key=lambda chapter: found[chapter.name])
    if not found[best.name]:
        names = ", ".join(chapter.name for chapter in known)
        raise CannotMark(
            f"The notebook holds the exercises of no chapter known here ({names}). Begin with the notebook from the "
            "chapter's page and keep its cells; if the chapter is newer than this program, install that page's wheels."
        )
    return best


def _own(chapter: Chapter) -> set[str]:
    """The grade_ids of its answers and graded cells: what else notebooks have is alike in several."""
    return {*chapter.functions, *chapter.functions.values()}


def _grade_id(cell: NotebookNode) -> str | None:
    nbgrader = cell.metadata.get("nbgrader", {})
    grade_id = nbgrader.get("grade_id")
    return grade_id if isinstance(grade_id, str) else None
