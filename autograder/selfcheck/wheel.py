"""The wheel ``gpulab-mark``, of which there are two.

Of the open edition: what marks a notebook, the chapters' exercises with it, the forms of their misconceptions, nothing of
nbgrader's. Of the graded one: what asks
the course's marking service, and neither a solution nor a hidden test."""

import shutil
import tempfile
from pathlib import Path

import nbformat

from autograder.authoring.authored import RECORD
from autograder.authoring.pipeline import chapters, copy_room, wheel_of
from autograder.client.command import ADDRESS
from autograder.core.edition import Edition
from autograder.core.layout import NOTEBOOK
from autograder.core.published import site_address, version
from autograder.misconceptions.corpus import CORPUS, as_text, read_corpus
from autograder.selfcheck.chapters import Chapter
from autograder.selfcheck.packed import SITE

LEFT_OUT = (
    "authoring",
    "client",
    "demo.py",
    "doctor.py",
    "grading",
    "instructor",
    "ledger.py",
    "lms",
    "marking",
    "nbgrader",
    "pyproject.toml",
    "wheel.py",
)
"""Instructors' and authors' rooms, by name."""
OF_THE_CLIENT = ("client", *(f"core/{name}.py" for name in ("__init__", "marks", "printable", "screen")))
"""Of ``autograder``, all that a learner of a graded course gets: a namespace package there."""


def write_mark_wheel(root: Path, folder: Path) -> Path:
    """Build the open edition's from the repository ``root`` into ``folder``, without drafts."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        copy_room(root, "autograder", source, *LEFT_OUT)
        shutil.copy(root / "autograder" / "selfcheck" / "pyproject.toml", source)
        (source / "VERSION").write_text(version(root))
        copy_room(root, "exercises", source, NOTEBOOK, CORPUS, RECORD)
        for name in chapters(root / "exercises"):
            chapter = root / "exercises" / name
            nbformat.write(Chapter(chapter).notebook, source / "exercises" / name / f"{name}.ipynb")
            forms = [attempt for attempt in read_corpus(chapter / CORPUS) if attempt.says]
            (source / "exercises" / name / CORPUS).write_text(as_text(forms), "utf-8")
        (source / "autograder" / "selfcheck" / SITE.name).write_text(site_address(root))
        return wheel_of(source, folder)


def write_client_wheel(root: Path, folder: Path, made: Edition) -> Path:
    """Build that of a graded edition with a marking service, which it asks."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        for name in OF_THE_CLIENT:
            copy = shutil.copytree if (root / "autograder" / name).is_dir() else shutil.copy
            (source / "autograder" / name).parent.mkdir(parents=True, exist_ok=True)
            copy(root / "autograder" / name, source / "autograder" / name)
        (source / "autograder" / "client" / "pyproject.toml").rename(source / "pyproject.toml")
        (source / "VERSION").write_text(made.version(version(root)))
        (source / "autograder" / "client" / ADDRESS.name).write_text(made.service)
        return wheel_of(source, folder)
