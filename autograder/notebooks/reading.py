"""Reads a notebook file that a learner hands in or has marked, whatever is wrong with it."""

import json
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

MAX_NOTEBOOK_BYTES = 64 * 1024**2
MAX_CELLS = 2000
_NEW_CELL = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class TooManyCells(ValueError):
    """More than ``MAX_CELLS``: no notebook of the course's."""


def read_notebook(path: Path) -> tuple[nbformat.NotebookNode | None, str]:
    """The notebook, or a sentence that says why there is none."""
    if path.is_symlink():
        return None, "The submitted notebook is a link to another file: hand in the file itself."
    if not path.exists():
        names = sorted(ascii(other.name)[1:101].removesuffix("'") for other in path.parent.glob("*.ipynb"))
        others = ", ".join(f"`{name}`" for name in names[:10])
        found = f"found {others}" if others else "found no notebook at all"
        return None, f"The submission holds no `{path.name}` ({found}): hand it in under this name."
    if (size := path.stat().st_size) > MAX_NOTEBOOK_BYTES:
        return None, f"The submitted notebook is too large ({size} bytes): clear its outputs, hand it in again."
    try:
        return parsed(path), ""
    except TooManyCells:
        return None, f"The submitted notebook has more than {MAX_CELLS} cells: hand in the course's notebook."
    except Exception as error:
        # Anything can be handed in under this name, and nbformat raises whatever it trips over.
        return None, f"The submitted file is not a Jupyter notebook ({type(error).__name__}): hand in the .ipynb."


def parsed(path: Path) -> nbformat.NotebookNode:
    """Raises whatever it trips over, TooManyCells among it."""
    text = path.read_text(encoding="utf-8")
    if len(json.loads(text).get("cells", ())) > MAX_CELLS:
        raise TooManyCells
    return _rebuilt(nbformat.reads(text, as_version=4))


def _rebuilt(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The sources and nbgrader metadata of the cells, in a notebook that is valid for certain."""
    cells = []
    for cell in notebook["cells"]:
        source = cell["source"]
        source = source if isinstance(source, str) else "".join(source)
        # Half a surrogate pair, which some editors leave, is JSON but no text.
        rebuilt = _NEW_CELL[cell["cell_type"]](source.encode("utf-8", "replace").decode())
        nbgrader = cell.get("metadata", {}).get("nbgrader")
        if isinstance(nbgrader, dict):
            rebuilt.metadata["nbgrader"] = nbgrader
        cells.append(rebuilt)
    return new_notebook(cells=cells)
