"""Notebooks in an archive that a learner handed in as it was, and what lies beside them: zip, tar, tar.gz, and archives in these."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from autograder.intake.files import MAX_FILE_BYTES, MAX_FILES, MAX_NOTEBOOK_BYTES, OF_THE_HAND_IN, may_be_one

MAX_DEPTH = 3
"""Of archives in archives, the outermost included."""
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz")
Wanted = Callable[[PurePosixPath], bool]


def notebooks_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of what may be a notebook; nothing of an archive that cannot be read, or that holds too much.

    What lies in an archive in it is called ``inner.zip/views.ipynb``.
    """
    return _members(path, lambda name: may_be_one(Path(name)), MAX_NOTEBOOK_BYTES)


def member_of(path: Path, wanted: PurePosixPath) -> bytes | None:
    """The content of the member that is called so."""
    return next((content for _, content in _members(path, lambda name: name == wanted, MAX_NOTEBOOK_BYTES)), None)


def unpack_beside(path: Path, notebook: str, to: Path) -> None:
    """What lies in an archive as it lies beside the notebook in it, into the folder ``to``; nothing that leads out of that.

    A ``timestamp.txt`` beside that notebook, or a secret of the exchange's, is another hand-in's, and stays.
    """
    beside = PurePosixPath(notebook).parent
    left = (beside, *(beside / name for name in OF_THE_HAND_IN))
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


@dataclass
class _Left:
    """What may still be read of one archive, those in it included, however small they call themselves."""

    bytes: int
    files: int
    unzipped: int
    """Bytes that gzip may give, whether they are wanted or not: of a tar file what is skipped has to be unpacked, too."""


def _members(path: Path, wanted: Wanted, most_bytes: int) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file:
        yield from _inside(
            file, "", wanted, _Left(most_bytes, MAX_FILES, MAX_FILE_BYTES + MAX_NOTEBOOK_BYTES), MAX_DEPTH
        )


def _inside(file: BinaryIO, folder: str, wanted: Wanted, left: _Left, depth: int) -> Iterator[tuple[str, bytes]]:
    try:
        for member, size, read in _entries(file, left):
            left.files -= 1
            if left.files < 0:
                return
            name = PurePosixPath(folder + member)
            is_archive = depth > 1 and name.suffix.lower() in _ARCHIVES
            if size > left.bytes or not (is_archive or wanted(name)):
                continue
            content = read(left.bytes)
            left.bytes -= len(content)
            if wanted(name):
                yield folder + member, content
            if is_archive:
                yield from _inside(io.BytesIO(content), f"{folder}{member}/", wanted, left, depth - 1)
    except Exception:
        return  # broken, encrypted or packed in a way of its own: zlib, lzma and zipfile raise a dozen kinds of errors


def _entries(file: BinaryIO, left: _Left) -> Iterator[tuple[str, int, Callable[[int], bytes]]]:
    """Of each file its name, the size that the archive claims, and how to read so many bytes of it."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist()[:MAX_FILES]:
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, lambda most, entry=entry: archive.open(entry).read(most)
        return
    with tarfile.open(fileobj=_unzipped(file, left), mode="r:") as archive:
        for entry in archive:
            if entry.isreg():
                yield entry.name, entry.size, lambda most, entry=entry: archive.extractfile(entry).read(most)


def _unzipped(file: BinaryIO, left: _Left) -> BinaryIO:
    file.seek(0)
    with gzip.GzipFile(fileobj=file) as packed:
        try:
            content = packed.read(left.unzipped)
        except gzip.BadGzipFile:
            file.seek(0)
            return file
    left.unzipped -= len(content)
    return io.BytesIO(content)
