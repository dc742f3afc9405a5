"""From the text notebook to nbgrader's source notebook and the learner's release."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.authoring.alone import with_what_to_install
from autograder.authoring.drafts import Drafts, in_the_book
from autograder.core.layout import NOTEBOOK
from autograder.nbgrader.config import configure


def chapters(exercises: Path) -> list[str]:
    """The chapters that have exercises, drafts left out."""
    return in_the_book(exercises)


def write_source(exercises: Path, chapter: str, course: Path) -> Path:
    """Write ``source/<chapter>/<chapter>.ipynb`` of ``course``; untouched when already equal."""
    from autograder.authoring.text import read_text_notebook

    target = course / "source" / chapter / f"{chapter}.ipynb"
    text = nbformat.writes(as_source(read_text_notebook(exercises / chapter / NOTEBOOK), exercises / chapter))
    if not target.exists() or target.read_text() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return target


def as_source(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """An author's notebook of the exercises in ``folder`` as nbgrader releases it to learners."""
    hints = folder / "hints.yml"
    page = yaml.safe_load(hints.read_text("utf-8"))["page"] if hints.is_file() else ""
    counted = with_checks_that_count(notebook)
    return with_what_to_install(counted, f"chapters/{page}") if page else counted


def with_checks_that_count(notebook: NotebookNode) -> NotebookNode:
    """nbgrader's *Validate* looks at graded cells alone: visible checks become such cells, worth no points."""
    answered = False
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        answered = answered or nbgrader.get("solution", False)
        if answered and cell.cell_type == "code" and nbgrader.get("locked") and not nbgrader["grade"]:
            nbgrader |= {"grade": True, "points": 0}
    return notebook


def refresh_sources(exercises: Path, course: Path) -> None:
    """Write the source notebooks that are older than their text, so that nbgrader sees edits."""
    for chapter in chapters(exercises):
        text = exercises / chapter / NOTEBOOK
        target = course / "source" / chapter / f"{chapter}.ipynb"
        if not target.exists() or target.stat().st_mtime < text.stat().st_mtime:
            write_source(exercises, chapter, course)
            target.touch()


def write_release(exercises: Path, chapter: str, course: Path) -> Path:
    """The learner's notebook, made by nbgrader's own ``generate_assignment`` in ``course``."""
    write_source(exercises, chapter, course)
    config = Config()
    configure(config)
    api = NbGraderAPI(CourseDirectory(root=str(course.resolve()), config=config), config=config)
    result = api.generate_assignment(chapter, force=True, create=True)
    if not result["success"]:
        raise RuntimeError(
            f"nbgrader could not make the release of {chapter}:\n{result.get('log')}\n{result.get('error')}"
        )
    return course / "release" / chapter / f"{chapter}.ipynb"


def write_downloads(exercises: Path, folder: Path) -> list[Path]:
    """Every chapter's release as ``<folder>/<chapter>.ipynb``, by way of a scratch course."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as scratch:
        for chapter in chapters(exercises):
            release = write_release(exercises, chapter, Path(scratch))
            written.append(Path(shutil.copy(release, folder / release.name)))
    return written


def write_wheel(root: Path, folder: Path) -> Path:
    """The wheel of ``gpulab``, which learners' notebooks import, for the site to offer."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        copy_room(root, "gpulab", source)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(root / name, source)
        return wheel_of(source, folder)


def copy_room(root: Path, room: str, source: Path, *left_out: str) -> None:
    """The package ``room`` of the repository into a project's folder, without what drafts alone need and ``left_out`` by name."""
    drafts, by_name = Drafts(root), shutil.ignore_patterns("__pycache__", *left_out)
    ignored = lambda folder, names: drafts.left_out(folder, names) | by_name(folder, names)
    shutil.copytree(root / room, source / room, ignore=ignored)


def wheel_of(source: Path, folder: Path) -> Path:
    """The wheel that pip builds from the project in ``source``, in ``folder``.

    With this environment's setuptools: an environment for each build would be fetched and installed each time.
    """
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            scratch,
            str(source),
        ]
        subprocess.run(command, check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        return Path(shutil.copy(wheel, folder / wheel.name))
