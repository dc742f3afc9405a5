"""A learner's notebook file, and whose exercises it holds; what is wrong with it, in a sentence."""

from pathlib import Path

from autograder.intake.notebook_file import Read
from autograder.intake.notebook_file import read as read_file
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released
from autograder.selfcheck.chapters import Chapter


class CannotMark(Exception):
    """Nothing was marked; says why and what to do."""


def read(path: Path) -> Read:
    """The sources of the cells. Raises CannotMark."""
    if not path.exists():
        others = sorted(other.name for other in path.parent.glob("*.ipynb")) if path.parent.is_dir() else []
        here = f" The notebooks there are {', '.join(others[:10])}." if others else ""
        raise CannotMark(f"There is no file {path}.{here}")
    if path.is_dir():
        raise CannotMark(f"{path} is a folder: name the notebook in it.")
    try:
        return read_file(path.resolve(), path.name)
    except NotGradable as problem:
        raise CannotMark(f"{path.name}: {problem}") from None
    except OSError as error:
        raise CannotMark(f"{path.name} cannot be read: {error.strerror}.") from None


def chapter_of(found: Read, known: list[Chapter]) -> Chapter:
    """The chapter most of whose exercises the notebook holds. Raises CannotMark."""
    held = {chapter.name: _held(found, chapter) for chapter in known}
    best = max(known, key=lambda chapter: held[chapter.name])
    if not held[best.name]:
        names = ", ".join(chapter.name for chapter in known)
        raise CannotMark(
            f"The notebook holds the exercises of no chapter known here ({names}). Begin with the notebook from the "
            "chapter's page and keep its cells; if the chapter is newer than this program, install that page's wheels."
        )
    return best


def _held(found: Read, chapter: Chapter) -> int:
    released = Released(chapter.released())
    return found.held(released) + found.answers(released)
