"""What lies in a submission: the files that are taken along, and those that may be its notebook."""

import errno
import hashlib
import os
import shutil
import stat
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from autograder.core.printable import printable
from autograder.intake.refused import NotGradable

MAX_NOTEBOOK_BYTES = 64 * 1024**2
MAX_FILE_BYTES = 128 * 1024**2
"""Of all files beside a notebook: a kernel's working folder takes twice as much."""
MAX_FILES = 1000
MAX_DIGESTED_BYTES = 512 * 1024**2
"""Of the rest size and time of writing stand for the content: a file that is mostly holes takes long to read."""
TIMESTAMP = "timestamp.txt"
"""In which nbgrader keeps when it was handed in."""
OF_THE_HAND_IN = (TIMESTAMP, "submission_secret.txt")
"""Files of nbgrader's: when, and by what its exchange finds a learner's feedback."""
_OF_NO_USE = (
    ".git",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    "__MACOSX",
    ".DS_Store",
    "Thumbs.db",
    ".ipynb_checkpoints",
)
_NOT_ENTERED = (".git", ".venv", "venv", "node_modules", "__pycache__", "__MACOSX")
_NO_PLACE = (errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_MAY_BE_ONE = (".ipynb", ".json", ".txt", ".py", "")


@dataclass(frozen=True)
class Handed:
    """All that lies in a submission's folder, links not followed.

    ``too_many``: there are more than ``MAX_FILES``, or they lie too deep to be named; then ``paths`` is what lies at the top.
    """

    folder: Path
    paths: tuple[Path, ...]
    too_many: bool = False

    def name(self, path: Path) -> str:
        """A file's name for notes and terminals, without line breaks, escapes and broken Unicode."""
        return printable(str(path.relative_to(self.folder)))

    def may_be_notebooks(self) -> list[Path]:
        """In the order of their names: whatever notebooks, exports, scripts and renamed copies are called."""
        found = [path for path in self.paths if may_be_one(path)]
        return [path for path in found if is_plain(path) and path.stat().st_size <= MAX_NOTEBOOK_BYTES]

    def archives(self) -> list[Path]:
        """Zip files, tar files and what gzip packed, whatever they are called."""
        found = [path for path in self.paths if is_plain(path) and path.stat().st_size <= MAX_NOTEBOOK_BYTES]
        return [path for path in found if os.access(path, os.R_OK) and _is_archive(path)]


def handed_in(folder: Path) -> Handed:
    found = _contents(folder)
    if found is not None:
        return Handed(folder, tuple(found))
    with os.scandir(folder) as inside:
        return Handed(folder, tuple(sorted(Path(entry.path) for entry in islice(inside, MAX_FILES))), too_many=True)


def taken_along(handed: Handed) -> tuple[list[Path], list[str]]:
    """The files that lie beside the kernel as they lie beside the notebook, and notes on what is left out. Small ones first."""
    if handed.too_many:
        time = handed.folder / TIMESTAMP
        return [time] * (time.exists() and is_plain(time)), [
            f"More than {MAX_FILES} files and folders lie beside the notebook: only it was taken."
        ]
    total, taken, notes, too_large = 0, list[Path](), list[str](), list[Path]()
    for path in sorted(handed.paths, key=lambda path: path.lstat().st_size):
        if path.is_symlink():
            notes.append(f"`{handed.name(path)}` was a link and was not followed.")
        elif path.is_dir() or path.suffix == ".ipynb" or _is_of_no_use(path, handed.folder):
            continue
        elif not is_plain(path):
            notes.append(f"`{handed.name(path)}` is no ordinary file and was not opened.")
        elif not os.access(path, os.R_OK):
            notes.append(f"The grader may not read `{handed.name(path)}`: it was left out.")
        elif total + path.stat().st_size > MAX_FILE_BYTES:
            too_large.append(path)
        else:
            total += path.stat().st_size
            taken.append(path)
    return taken, [*_shortened(notes), *_left_out(handed, too_large)]


def digest(handed: Handed) -> str:
    """Of all that grading reads, but for the time: the same where nothing was handed in anew."""
    found, left = hashlib.sha256(), MAX_DIGESTED_BYTES
    files = {*handed.may_be_notebooks(), *handed.archives(), *taken_along(handed)[0]}
    for path in sorted(path for path in files if path.name != TIMESTAMP):
        found.update(f"{path.relative_to(handed.folder)}".encode("utf-8", "surrogateescape"))
        about = path.stat()
        left -= about.st_size
        if left < 0:
            found.update(f"{about.st_size} {about.st_mtime_ns}".encode())
            continue
        with suppress(PermissionError), path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def copy(files: list[Path], beside: Path, to: Path) -> list[str]:
    """Those files that lie in the folder ``beside`` or below, so that they lie alike in ``to``. Returns who found no place there."""
    notes = []
    for path in (path for path in files if path.is_relative_to(beside)):
        target = to / path.relative_to(beside)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copyfile(path, target)
        except OSError as error:
            if error.errno not in _NO_PLACE:
                raise
            notes.append(f"`{printable(str(path.relative_to(beside)))}` was left out: {error.strerror}.")
    return _shortened(notes)


def _left_out(handed: Handed, paths: list[Path]) -> list[str]:
    if not paths:
        return []
    names = ", ".join(f"`{handed.name(path)}`" for path in paths[:3])
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    were = "was" if len(paths) == 1 else "were"
    limit = f"{MAX_FILE_BYTES // 1024**2} MiB"
    return [f"{names}{more} {were} left out: the files beside the notebook hold more than {limit}."]


def _shortened(notes: list[str]) -> list[str]:
    return notes if len(notes) <= 10 else [*notes[:10], f"And {len(notes) - 10} more files like these."]


def is_plain(path: Path) -> bool:
    """An ordinary file: no link, folder, pipe, socket or device."""
    return stat.S_ISREG(path.lstat().st_mode)


def content(path: Path, name: str) -> bytes:
    """Of a file that may be a notebook. Raises NotGradable."""
    if path.is_symlink():
        raise NotGradable(f"The submitted `{name}` is a link to another file: hand in the file itself.")
    if not is_plain(path):
        raise NotGradable(f"The submitted `{name}` is no ordinary file: hand in the .ipynb.")
    if (size := path.stat().st_size) > MAX_NOTEBOOK_BYTES:
        limit = f"{size} bytes, of {MAX_NOTEBOOK_BYTES >> 20} MiB"
        raise NotGradable(f"The submitted `{name}` is too large ({limit}): clear its outputs, hand it in again.")
    try:
        return path.read_bytes()
    except PermissionError:
        mode = f"mode {stat.S_IMODE(path.stat().st_mode):04o}"
        raise NotGradable(
            f"The grader may not read the submitted `{name}` ({mode}). This is the instructor's to mend: give the grader's "
            "account the right to read it, then grade it again."
        ) from None


def may_be_one(path: Path) -> bool:
    """By its name."""
    return path.suffix.lower() in _MAY_BE_ONE or ".ipynb" in path.name.lower()


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.read(262)
    return first.startswith(b"\x1f\x8b") or first[257:] == b"ustar" or zipfile.is_zipfile(path)


def _is_of_no_use(path: Path, folder: Path) -> bool:
    return any(part in _OF_NO_USE for part in path.relative_to(folder).parts)


def _contents(folder: Path) -> list[Path] | None:
    """In order; None where that is too many."""
    found, todo = [], [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as inside:
                entries = list(islice(inside, MAX_FILES + 1 - len(found)))
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.EACCES):
                raise
            if error.errno == errno.EACCES:
                continue  # a folder that the grader may not open holds nothing for it
            return None
        found += [Path(entry.path) for entry in entries]
        todo += [
            Path(entry.path)
            for entry in entries
            if entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_ENTERED
        ]
        if len(found) > MAX_FILES:
            return None
    return sorted(found)
