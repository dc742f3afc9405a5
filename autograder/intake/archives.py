"""Notebooks in an archive that a learner handed in as it was."""

import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from autograder.intake.files import MAX_FILE_BYTES, MAX_FILES, MAX_NOTEBOOK_BYTES, may_be_one


def notebooks_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of what may be a notebook in a zip file; nothing of one that cannot be read, or that holds too much."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()[:MAX_FILES]
            left = MAX_NOTEBOOK_BYTES
            for member in members:
                if not member.is_dir() and may_be_one(Path(member.filename)) and member.file_size <= left:
                    with archive.open(member) as file:
                        content = file.read(left)
                    left -= len(content)
                    yield member.filename, content
    except Exception:
        return  # broken, encrypted or packed in a way of its own: zlib, lzma and zipfile raise a dozen kinds of errors


def unpack_beside(path: Path, notebook: str, to: Path) -> None:
    """What lies in an archive as it lies beside the notebook in it, into the folder ``to``; nothing that leads out of that."""
    beside, left = PurePosixPath(notebook).parent, MAX_FILE_BYTES
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist()[:MAX_FILES]:
                name = PurePosixPath(member.filename)
                if member.is_dir() or ".." in name.parts or not name.is_relative_to(beside) or name.suffix == ".ipynb":
                    continue
                with archive.open(member) as file:
                    content = file.read(left + 1)
                if len(content) > left:
                    return
                left -= len(content)
                target = to / name.relative_to(beside)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    except Exception:
        return  # as above, and names that find no place
