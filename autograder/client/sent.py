"""What of a notebook is sent: what its cells say, without what they put out and what JupyterLab notes about them."""

import ast
import json
from pathlib import Path

from autograder.client.cannot import CannotAsk

MAX_BYTES = 8 * 1024**2
"""Of what is sent."""


def sent(path: Path) -> bytes:
    """As JSON, equal for cells that say the same: what is sent again costs no try. Raises CannotAsk."""
    try:
        cells = [_said_by(cell) for cell in json.loads(path.read_text("utf-8"))["cells"]]
    except FileNotFoundError:
        raise CannotAsk(f"There is no file {path}.") from None
    except OSError as error:
        raise CannotAsk(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise CannotAsk(
            f"{path.name} is no Jupyter notebook: save it in JupyterLab and give the path of that .ipynb file."
        ) from None
    for cell in cells:
        _require_python(cell)
    raw = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, sort_keys=True).encode()
    if len(raw) > MAX_BYTES:
        raise CannotAsk(
            f"{path.name} holds {len(raw) / 2**20:.1f} MiB without its outputs, and {MAX_BYTES >> 20} MiB can be sent: are "
            "there pictures in its text?"
        )
    return raw


def _said_by(cell: dict) -> dict:
    kind, source = cell["cell_type"], cell["source"]
    about = {name: value for name, value in cell.get("metadata", {}).items() if name == "nbgrader"}
    said = {"cell_type": kind, "source": source if isinstance(source, str) else "".join(source), "metadata": about}
    said |= {name: cell[name] for name in ("id", "attachments") if name in cell}
    return said | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def _require_python(cell: dict) -> None:
    """An answer with a slip of the pen is worth no try. Lines of IPython's own are no Python, and are not looked at."""
    answers = cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution")
    if not answers or any(line.lstrip().startswith(("%", "!", "?")) for line in cell["source"].splitlines()):
        return
    name = cell["metadata"]["nbgrader"].get("grade_id", "")
    try:
        ast.parse(cell["source"])
    except SyntaxError as error:
        raise CannotAsk(
            f"The cell `{name}` is no Python: {error.msg}, line {error.lineno}. Nothing was sent."
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise CannotAsk(f"The cell `{name}` cannot be read as Python. Nothing was sent.") from None
