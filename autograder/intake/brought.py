"""What a notebook takes from files beside it that no reader of its cells sees: ``from mytools import *``, ``%run other.ipynb``."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path, PurePosixPath

from nbformat import NotebookNode

from autograder.core.printable import printable
from autograder.intake.archives import member_of
from autograder.intake.encodings import decoded
from autograder.intake.files import MAX_NOTEBOOK_BYTES, is_plain
from autograder.intake.forms import MAX_SCRIPT, cells_in
from autograder.intake.names import as_code, facts
from autograder.intake.notebook_file import Read
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released
from autograder.intake.typed import mend

_STAR = re.compile(r"^from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]+\*[^\n]*$", re.MULTILINE)
_RUN = re.compile(
    r"^%run[ \t]+(?:-i[ \t]+)?(?P<quote>['\"]?)(?P<file>[^\n'\"]+?\.ipynb)(?P=quote)[ \t]*$", re.MULTILINE
)
_DEPTH = 3
"""Of notebooks that run notebooks."""
MOST_FILES = 20
"""That are opened for one notebook: modules of stars, and runs of notebooks."""
Beside = Callable[[str], bytes | None]


def with_what_it_brings(found: Read, released: Released, *folders: Path) -> Read:
    """The cells of a notebook that is run stand where it is run, and an answer that a star brings is imported by its name.

    ``folders``: where files lie beside the kernel, besides the notebook's own. Cells of ``found`` may change.
    """
    beside = _a_few(_in_archive(found) if found.member else _in_folders(found.path.parent, *folders))
    code = [cell for cell in found.cells if cell.cell_type == "code"]
    code_of, runs = cache(lambda file: _code_of(beside(file))), count(MOST_FILES, -1)
    notes = [note for cell in code for note in _run_in_place(cell, code_of, runs)]
    missing = set(released.functions) - {answer for cell in code for answer in released.answered_by(cell.source)}
    wanted = {released.functions[answer] for answer in missing}
    notes += [note for cell in code for note in _by_name(cell, wanted, beside)]
    return replace(found, notes=(*found.notes, *dict.fromkeys(notes)))


def _a_few(beside: Beside) -> Beside:
    """Of more than ``MOST_FILES`` the rest is not there; of files that are not there just as many are looked for."""
    left = count(MOST_FILES, -1)
    return cache(lambda name: beside(name) if next(left) > 0 else None)


def _run_in_place(cell: NotebookNode, code_of: Callable[[str], str | None], left: Iterator[int]) -> list[str]:
    notes = list[str]()

    def cells_of(run: re.Match, depth: int = _DEPTH) -> str:
        source = code_of(run["file"]) if depth and next(left) > 0 else None
        shown = f"`%run {printable(run['file'])}`"
        if source is None:
            notes.append(f"{shown}: no such notebook was handed in beside this one, so nothing of it was run.")
            return run[0]
        notes.append(f"{shown}: the cells of that notebook were run in its place.")
        return _RUN.sub(lambda inner: cells_of(inner, depth - 1), source)

    if _RUN.search(cell.source) and len(source := _RUN.sub(cells_of, cell.source)) <= MAX_SCRIPT:
        cell.source = source
    return list(dict.fromkeys(notes))[:MOST_FILES]


def _code_of(raw: bytes | None) -> str | None:
    """A notebook's code, one cell after the other."""
    if raw is None:
        return None
    try:
        cells = cells_in(decoded(raw)[0])
    except NotGradable:
        return None
    mend(cells)
    return "\n\n".join(as_code(cell.source) for cell in cells if cell.cell_type == "code")


def _by_name(cell: NotebookNode, wanted: set[str], beside: Beside) -> list[str]:
    notes = list[str]()

    def named(star: re.Match) -> str:
        brought = [name for name in sorted(wanted) if _defines(star["module"], name, beside)]
        if not brought:
            return star[0]
        shown = " and ".join(f"`{name}`" for name in brought)
        notes.append(f"`from {star['module']} import *` brings {shown}: that counts as the answer.")
        return f"{star[0]}\nfrom {star['module']} import {', '.join(brought)}"

    if wanted:
        cell.source = _STAR.sub(named, cell.source)
    return notes


def _defines(module: str, name: str, beside: Beside) -> bool:
    """Whether a star takes the name from the module."""
    path = module.replace(".", "/")
    raw = beside(f"{path}.py") or beside(f"{path}/__init__.py")
    if raw is None or len(raw) > MAX_SCRIPT:
        return False
    found = facts(text := decoded(raw)[0])
    return found.is_written(name) and ("__all__" not in found.bound or f'"{name}"' in text or f"'{name}'" in text)


def _in_archive(found: Read) -> Beside:
    folder = PurePosixPath(found.member).parent
    return lambda name: member_of(found.path, folder / name) if _stays_below(name) else None


def _in_folders(*folders: Path) -> Beside:
    def beside(name: str) -> bytes | None:
        paths = [folder / name for folder in folders if _stays_below(name) and not _leads_away(folder, name)]
        path = next((path for path in paths if path.exists()), None)
        if path is None or not is_plain(path) or path.stat().st_size > MAX_NOTEBOOK_BYTES:
            return None
        try:
            return path.read_bytes()
        except PermissionError:
            return None

    return beside


def _stays_below(name: str) -> bool:
    return not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts


def _leads_away(folder: Path, name: str) -> bool:
    """Whether a part of the path is a link."""
    below = [folder / part for part in (PurePosixPath(name), *PurePosixPath(name).parents)]
    return any(path.is_symlink() for path in below if path != folder)
