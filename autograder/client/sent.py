"""What of a notebook is sent: its cells, without what they put out."""

import json
from pathlib import Path

from autograder.client.service import CannotAsk

MAX_BYTES = 8 * 1024**2
"""Of what is sent."""


def sent(path: Path) -> bytes:
    """As JSON, equal for equal cells: what is sent again costs no try. Raises CannotAsk."""
    try:
        notebook = json.loads(path.read_text("utf-8"))
        cells = notebook["cells"]
        for cell in cells:
            if cell["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}
    except FileNotFoundError:
        raise CannotAsk(f"There is no file {path}.") from None
    except OSError as error:
        raise CannotAsk(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, LookupError, TypeError):
        raise CannotAsk(f"{path.name} is no Jupyter notebook: save it in JupyterLab, and name its .ipynb.") from None
    raw = json.dumps(notebook, sort_keys=True).encode()
    if len(raw) > MAX_BYTES:
        raise CannotAsk(
            f"{path.name} holds {len(raw) / 2**20:.1f} MiB without its outputs, and {MAX_BYTES >> 20} MiB can be sent: are "
            "there pictures in its text?"
        )
    return raw
