"""The cells of a notebook file of any version, or of a script with cell marks; their types, sources and identities alone."""

import json
import re
from itertools import islice

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from autograder.intake.refused import NotGradable

MAX_CELLS = 2000
_NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "heading": new_markdown_cell}
_ID = re.compile(r"[a-zA-Z0-9-_]{1,64}")
_PICTURES = ("image/png", "image/jpeg", "image/gif")
_MARK = re.compile(
    r"^#(?: ?%%+| ?In ?\[[ \d]*\]:| \+(?= *$| \[| \{)| -(?= *$)| COMMAND -{4,}| <(?:code|markdown)cell>)(?P<rest>.*)$",
    re.MULTILINE,
)
"""Of cells in scripts: the percent format, nbconvert's, jupytext's light one, Databricks', IPython's."""
MAX_CODE, MAX_SCRIPT, MAX_PARTS = 4 * 1024**2, 1024**2, 3_000_000
_OF_GIT = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)


def cells_in(text: str) -> list[NotebookNode]:
    """New cells, valid for certain. Raises NotGradable."""
    text = text.replace("\0", "").lstrip("\ufeff \t\r\n")
    found = _of_json(text) if text[:1] in ("{", "[") else _of_script(text)
    if len(found) > MAX_CELLS:
        raise _too_many()
    if sum(len(cell.source) for cell in found if cell.cell_type == "code") > MAX_CODE:
        raise NotGradable(f"The notebook holds more than {MAX_CODE >> 20} MiB of code: read data from files beside it.")
    return found


def _of_json(text: str) -> list[NotebookNode]:
    if text.count("{") + text.count("[") > MAX_PARTS:
        raise NotGradable("The notebook has millions of parts: clear its outputs, hand it in again.")
    try:
        document, _ = json.JSONDecoder(strict=False, parse_int=lambda digits: 0).raw_decode(text)
    except json.JSONDecodeError as error:
        raise NotGradable(_why_no_json(text, error)) from None
    except RecursionError:
        raise NotGradable("The file is not a Jupyter notebook: hand in the .ipynb.") from None
    raw = _raw_cells(document)
    cells = [_rebuilt(cell) for cell in raw[: MAX_CELLS + 1] if isinstance(cell, dict)]
    if raw and not cells:
        raise NotGradable("The file is not a Jupyter notebook, its cells are none: hand in the .ipynb.")
    return cells


def _why_no_json(text: str, error: json.JSONDecodeError) -> str:
    if mark := _OF_GIT.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        return f"The notebook holds marks of a merge that Git did not finish (line {line}): finish it, hand in again."
    if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string"):
        return "The notebook breaks off in its middle, as after a broken download: save it and hand in again."
    where = f"line {error.lineno}, column {error.colno}"
    return f"The file is not a Jupyter notebook (no JSON at {where}): open it in Jupyter, save it, hand in again."


def _too_many() -> NotGradable:
    return NotGradable(f"The notebook has more than {MAX_CELLS} cells: hand in the course's notebook.")


def _raw_cells(document: object) -> list:
    """From nbformat 4, from the worksheets of nbformat 3 and 2, or a bare list."""
    if isinstance(document, list) and document and all(isinstance(cell, dict) for cell in document):
        return document
    if isinstance(document, dict):
        if isinstance(cells := document.get("cells"), list):
            return cells
        sheets = document.get("worksheets")
        if isinstance(sheets, list) and all(isinstance(sheet, dict) for sheet in sheets):
            lists = [sheet["cells"] for sheet in sheets if isinstance(sheet.get("cells"), list)]
            if lists:
                return [cell for cells in lists for cell in cells]
    raise NotGradable("The file is not a Jupyter notebook, though it is JSON: it has no cells. Hand in the .ipynb.")


def _rebuilt(cell: dict) -> NotebookNode:
    kind = cell.get("cell_type", "code" if "outputs" in cell else "raw")
    new = _NEW.get(kind if isinstance(kind, str) else "raw", new_raw_cell)
    rebuilt = new(_lines(next((cell[key] for key in ("source", "input", "code") if key in cell), "")))
    metadata = cell.get("metadata")
    if isinstance(metadata, dict) and isinstance(nbgrader := metadata.get("nbgrader"), dict):
        if isinstance(grade_id := nbgrader.get("grade_id"), str):
            rebuilt.metadata["nbgrader"] = NotebookNode(grade_id=grade_id)
    if isinstance(name := cell.get("id"), str) and _ID.fullmatch(name):
        rebuilt["id"] = name
    if rebuilt.cell_type == "markdown" and (pictures := _pictures(cell.get("attachments"))):
        rebuilt["attachments"] = pictures
    return rebuilt


def _pictures(attachments: object) -> dict:
    """Those that browsers show and that nothing can run in."""
    if not isinstance(attachments, dict):
        return {}
    kept = {
        name: {kind: data for kind, data in bundle.items() if kind in _PICTURES and isinstance(data, str)}
        for name, bundle in attachments.items()
        if isinstance(bundle, dict)
    }
    return {name: bundle for name, bundle in kept.items() if bundle}


def _lines(source: object) -> str:
    """With one sign for the end of a line, whatever the editor writes, and no half of a surrogate pair."""
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    source = source if isinstance(source, str) else ""
    return source.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")


def _of_script(text: str) -> list[NotebookNode]:
    """A script in the percent format, or as ``nbconvert --to script`` writes it; without marks, it is one cell."""
    text = _lines(text)
    if text.startswith(("PK\3\4", "\x1f\x8b")):
        raise NotGradable("The file is an archive and no notebook: unpack it, hand in the .ipynb.")
    if text.startswith("version https://git-lfs"):
        raise NotGradable("The file is a pointer of Git LFS and no notebook: fetch the notebook with `git lfs pull`.")
    if not text.strip() or text.startswith("%PDF") or "<html" in text[:1000].lower():
        raise NotGradable("The file is not a Jupyter notebook: hand in the .ipynb.")
    if len(text) > MAX_SCRIPT:
        raise NotGradable("The file is no notebook, and larger than any script of the course's: hand in the .ipynb.")
    marks = list(islice(_MARK.finditer(text), MAX_CELLS + 1))
    if len(marks) > MAX_CELLS:
        raise _too_many()
    if not marks:
        return [new_code_cell(text.strip())]
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [_marked(mark["rest"], text[mark.end() : end].strip("\n")) for mark, end in zip(marks, ends)]


def _marked(rest: str, source: str) -> NotebookNode:
    if rest.startswith(">") or rest.split()[:1] in (["[markdown]"], ["[md]"], ["md"], ["markdown"]):
        return new_markdown_cell(re.sub(r"^# ?", "", source, flags=re.MULTILINE))
    cell = new_code_cell(source)
    _, named, nbgrader = rest.partition("nbgrader=")
    if named:
        try:
            cell.metadata["nbgrader"] = NotebookNode(
                grade_id=str(json.JSONDecoder().raw_decode(nbgrader)[0]["grade_id"])
            )
        except (ValueError, RecursionError, LookupError, TypeError):
            pass  # it is recognised otherwise
    return cell
