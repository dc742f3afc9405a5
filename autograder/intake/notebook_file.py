"""A notebook's file: the cells that are in it, and what is odd about it."""

from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from autograder.intake.encodings import decoded
from autograder.intake.files import content
from autograder.intake.forms import cells_in
from autograder.intake.identity import recognised
from autograder.intake.names import facts
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released, same_text
from autograder.intake.typed import mend


@dataclass(frozen=True)
class Read:
    """A file's cells. ``name``: what notes call it. ``notes``: what was odd about it.
    ``member``: its name in the archive at ``path``, empty where that is the notebook itself. ``others``: of which cells are
    among its own.
    """

    path: Path
    name: str
    cells: list[NotebookNode]
    notes: tuple[str, ...] = ()
    member: str = ""
    others: tuple["Read", ...] = ()

    def answered(self, released: Released) -> set[str]:
        """The release's answers that it holds work for."""
        code = [cell.source for cell in self.cells if cell.cell_type == "code"]
        return {answer for source in code for answer in released.answered_by(source)}

    def answers(self, released: Released) -> int:
        """How many they are."""
        return len(self.answered(released))

    def is_untouched(self, released: Released) -> bool:
        """Whether its code is the release's, or starters alone."""
        return all(is_given(cell.source, released) for cell in self.cells if cell.cell_type == "code")

    def held(self, released: Released) -> int:
        """How many of the release's answers and tests it holds: what else notebooks have is alike in several."""
        return len(recognised(self.cells, released).seen & released.its_own)


def is_given(source: str, released: Released) -> bool:
    """Whether code is the release's, or starters alone."""
    held = facts(source).held
    return (
        bool(held)
        and not any(written for _, written in held)
        or any(same_text(source, text) for text in released.texts.values())
    )


def read(path: Path, name: str) -> Read:
    """Raises NotGradable, FileNotFoundError among what the file system raises."""
    return read_bytes(path, name, content(path, name))


def read_bytes(path: Path, name: str, raw: bytes) -> Read:
    """Of the content of a file, or of a member of the archive at ``path``. Raises NotGradable."""
    text, encoding = decoded(raw)
    notes = (f"The notebook is not in UTF-8, it was read as {encoding}.",) if encoding else ()
    try:
        cells = cells_in(text)
        return Read(path, name, cells, (*notes, *mend(cells)))
    except NotGradable:
        raise
    except Exception as error:  # anything can lie under a notebook's name
        raise NotGradable(f"The file is not a Jupyter notebook ({type(error).__name__}): hand in the .ipynb.") from None
