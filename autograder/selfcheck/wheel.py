"""The wheel ``gpulab-mark``: what marks a notebook, the chapters' exercises with it, nothing of nbgrader's."""

import shutil
import tempfile
import tomllib
from pathlib import Path

import nbformat

from autograder.authoring.pipeline import chapters, copy_room, wheel_of
from autograder.selfcheck.chapters import Chapter, site_address

LEFT_OUT = (
    "authoring",
    "demo.py",
    "doctor.py",
    "grading",
    "instructor",
    "ledger.py",
    "nbgrader_plugins",
    "pyproject.toml",
    "wheel.py",
)
"""Instructors' and authors' rooms, by name."""


def write_mark_wheel(root: Path, folder: Path) -> Path:
    """Build the wheel from the repository ``root`` into ``folder``, without drafts."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        copy_room(root, "autograder", source, *LEFT_OUT)
        shutil.copy(root / "autograder" / "selfcheck" / "pyproject.toml", source)
        (source / "VERSION").write_text(version(root))
        packed = source / "autograder" / "selfcheck" / "chapters"
        for name in chapters(root / "exercises"):
            _pack(Chapter(root / "exercises" / name), packed / name)
        (packed / "site.txt").write_text(site_address(root))
        return wheel_of(source, folder)


def version(root: Path) -> str:
    """That of gpulab, whose marker this is."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def _pack(chapter: Chapter, folder: Path) -> None:
    folder.mkdir(parents=True)
    nbformat.write(chapter.notebook, folder / f"{chapter.name}.ipynb")
    shutil.copy(chapter.folder / "hints.yml", folder)
