"""The wheel ``gpulab-mark``: what marks a notebook, the chapters' exercises with it, nothing of nbgrader's."""

import shutil
import tempfile
from pathlib import Path

import nbformat

from autograder.authoring.authored import RECORD
from autograder.authoring.corpus import CORPUS
from autograder.authoring.misconceptions import MISCONCEPTIONS
from autograder.authoring.pipeline import chapters, copy_room, wheel_of
from autograder.core.layout import NOTEBOOK
from autograder.core.published import site_address, version
from autograder.selfcheck.chapters import Chapter
from autograder.selfcheck.packed import SITE

LEFT_OUT = (
    "authoring",
    "demo.py",
    "doctor.py",
    "grading",
    "instructor",
    "ledger.py",
    "lms",
    "nbgrader",
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
        copy_room(root, "exercises", source, NOTEBOOK, CORPUS, MISCONCEPTIONS, RECORD)
        for name in chapters(root / "exercises"):
            notebook = Chapter(root / "exercises" / name).notebook
            nbformat.write(notebook, source / "exercises" / name / f"{name}.ipynb")
        (source / "autograder" / "selfcheck" / SITE.name).write_text(site_address(root))
        return wheel_of(source, folder)
