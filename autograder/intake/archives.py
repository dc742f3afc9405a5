"""Notebooks in an archive that a learner handed in as it was, and what lies beside them."""

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from autograder.intake.files import MAX_FILE_BYTES, MAX_FILES, MAX_NOTEBOOK_BYTES, TIMESTAMP, may_be_one


def notebooks_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of what may be a notebook in a zip file; nothing of one that cannot be read, or that holds too much."""
    return _members(path, lambda name: may_be_one(Path(name)), MAX_NOTEBOOK_BYTES)


def unpack_beside(path: Path, notebook: str, to: Path) -> None:
    """What lies in an archive as it lies beside the notebook in it, into the folder ``to``; nothing that leads out of that.

    A ``timestamp.txt`` beside that notebook is another hand-in's, and stays.
    """
    beside = PurePosixPath(notebook).parent
    left = (beside / TIMESTAMP,)
    is_beside = lambda name: (
        ".." not in name.parts and name.is_relative_to(beside) and name.suffix != ".ipynb" and name not in left
    )
    for name, content in _members(path, is_beside, MAX_FILE_BYTES):
        target = to / PurePosixPath(name).relative_to(beside)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError:
            continue  # a name that finds no place


def _members(path: Path, wanted: Callable[[PurePosixPath], bool], most_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Those of which no more than ``most_bytes`` come in all, however small the archive calls them."""
    left = most_bytes
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist()[:MAX_FILES]:
                if not member.is_dir() and wanted(PurePosixPath(member.filename)) and member.file_size <= left:
                    with archive.open(member) as file:
                        content = file.read(left)
                    left -= len(content)
                    yield member.filename, content
    except Exception:
        return  # broken, encrypted or packed in a way of its own: zlib, lzma and zipfile raise a dozen kinds of errors
