"""Files that a learner handed in beside the notebook: pictures and data lie open where a person works, all else in one archive."""

import shutil
import tarfile
from pathlib import Path

OPEN = frozenset((".csv", ".gif", ".jpeg", ".jpg", ".npy", ".png", ".tsv", ".txt"))
"""What no program runs, and no browser or Jupyter acts on."""
PACKED = "handed-in-beside.tar"


def put_away(staged: Path, to: Path) -> None:
    """Move all that lies below ``staged`` into the folder ``to``: as it lay where its ending is in ``OPEN``, else into ``PACKED``."""
    files = sorted(path for path in staged.rglob("*") if path.is_file())
    for path in filter(_is_open, files):
        target = to / path.relative_to(staged)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    if packed := [path for path in files if not _is_open(path)]:
        to.mkdir(parents=True, exist_ok=True)
        with tarfile.open(to / PACKED, "w") as archive:
            for path in packed:
                archive.add(path, str(path.relative_to(staged)))


def lay_out(beside: Path, to: Path) -> None:
    """Copy what lies beside a notebook to where its kernel runs, as it was handed in; notebooks and links stay behind."""
    if (beside / PACKED).exists():
        _unpack(beside / PACKED, to)
    for path in beside.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, to / path.name, dirs_exist_ok=True)
        elif not path.is_symlink() and path.suffix != ".ipynb" and path.name != PACKED:
            shutil.copyfile(path, to / path.name)


def _unpack(archive: Path, to: Path) -> None:
    """One that ``put_away`` wrote."""
    with tarfile.open(archive) as files:
        for member in files:
            target = to / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with files.extractfile(member) as content, target.open("wb") as file:
                shutil.copyfileobj(content, file)


def _is_open(path: Path) -> bool:
    return path.suffix.lower() in OPEN and not path.name.startswith(".")
