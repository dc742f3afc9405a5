"""Notebooks in an archive that a learner handed in as it was."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from autograder.intake.files import MAX_FILES, MAX_NOTEBOOK_BYTES, may_be_one


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
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError):
        return  # broken, encrypted or packed in a way of its own
