"""A course folder with the released chapter, and a way to hand in and grade."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.authoring.pipeline import write_release
from autograder.core.ledger import Ledger
from autograder.nbgrader.config import configure
from autograder.notebooks.cells import cell_of
from autograder.sandbox import sandbox, workspace
from autograder.sandbox.server import KernelServer
from tests.pipeline.touching import WATCH

ROOT = Path(__file__).parents[2]


@cache
def released(chapter: str) -> Path:
    """A course folder with the chapter's release, made once for all courses of this process."""
    folder = tempfile.TemporaryDirectory(prefix="released-")
    atexit.register(folder.cleanup)
    write_release(ROOT / "exercises", chapter, Path(folder.name))
    return Path(folder.name)


@cache
def share_one_kernel_server() -> None:
    """All graders of this process, whatever their limits, fork kernels from it; a server for each is 5 s of imports."""
    if not sandbox.problem():
        server = KernelServer(sandboxed=True)
        atexit.register(server.close)
        workspace.share(server.address)


class Course:
    """One chapter's course in a folder of its own, driven as the formgrader drives it."""

    def __init__(self, root: Path, chapter: str = "views") -> None:
        self.root, self.chapter = root, chapter
        shutil.copytree(released(chapter), root, dirs_exist_ok=True)
        self.ledger = Ledger(root)

    def notebook(self, kind: str) -> nbformat.NotebookNode:
        """``kind``: ``source`` (with solutions) or ``release``."""
        return nbformat.read(self.root / kind / self.chapter / f"{self.chapter}.ipynb", as_version=4)

    def answered(self, **cells: str) -> nbformat.NotebookNode:
        """The release with the course's own solutions, those named in ``cells`` replaced."""
        notebook, solutions = self.notebook("release"), self.notebook("source")
        for cell, solved in zip(notebook.cells, solutions.cells, strict=True):
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = cells.get(cell.metadata["nbgrader"]["grade_id"], solved.source)
        return notebook

    def solution(self, function: str) -> str:
        """The course's own cell, its two marks included."""
        return cell_of(self.notebook("source"), function).source

    def hand_in(self, student: str, notebook: nbformat.NotebookNode | bytes, at: str = "2026-01-01 00:00:00") -> Path:
        folder = self.root / "submitted" / student / self.chapter
        folder.mkdir(parents=True, exist_ok=True)
        content = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
        (folder / f"{self.chapter}.ipynb").write_bytes(content)
        (folder / "timestamp.txt").write_text(f"{at} UTC")
        return folder

    def api(self, **settings) -> NbGraderAPI:
        share_one_kernel_server()
        config = Config()
        configure(config)
        for name, value in settings.items():
            config.ExecuteGraded[name] = value
        return NbGraderAPI(CourseDirectory(root=str(self.root), config=config), config=config)

    def autograde(self, student: str, force: bool = True, **settings) -> dict:
        return self.api(**settings).autograde(self.chapter, student, force=force, create=True)

    def feedback(self, student: str, force: bool = True) -> str:
        result = self.api().generate_feedback(self.chapter, student, force=force)
        assert result["success"], result
        return (self.root / "feedback" / student / self.chapter / f"{self.chapter}.html").read_text()

    def scores(self, student: str) -> dict[str, float]:
        """Points by graded cell, from nbgrader's gradebook."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            submission = gradebook.find_submission(self.chapter, student)
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            return {grade.name: grade.score for grade in grades if grade.max_score}

    def needs_manual_grade(self, student: str) -> bool:
        """Whether nbgrader asks a person to look."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            return gradebook.find_submission(self.chapter, student).needs_manual_grade

    def formgrade(self, student: str, formgrader: str) -> str:
        """The address of the page on which the formgrader shows a submission."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            (notebook,) = gradebook.find_submission(self.chapter, student).notebooks
            return f"{formgrader}/submissions/{notebook.id}/"

    def full_marks(self) -> dict[str, float]:
        return {
            cell.metadata["nbgrader"]["grade_id"]: cell.metadata["nbgrader"]["points"]
            for cell in self.notebook("source").cells
            if cell.metadata.get("nbgrader", {}).get("points")
        }

    def entry(self, student: str) -> dict:
        return json.loads(self.ledger.path(self.chapter, student).read_text())


@pytest.fixture(scope="session")
def course(tmp_path_factory) -> Course:
    return Course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def formgrader(course):
    """The address of a Jupyter server that runs on ``course``, started as `make lab` does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"]
    # nbgrader serves courses below the server's root only.
    command += [f"--ServerApp.root_dir={course.root}"]
    environment = os.environ | {"COURSE": str(course.root), "JUPYTER_PATH": str(ROOT / "tools" / "lab")}
    with open(course.root / "lab.log", "w") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield _answering(f"http://127.0.0.1:{port}/formgrader", server, course.root / "lab.log")
    finally:
        server.terminate()
        server.wait(60)


def _answering(address, server, log):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urlopen(f"{address}/api/assignments", timeout=60)
            return address
        except URLError:
            time.sleep(0.3)
    raise AssertionError(f"the server did not answer:\n{log.read_text()[-3000:]}")


@pytest.fixture
def watched(browser):
    """A page whose requests beyond its own server are listed, and stopped."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.far, page.popups, page.dialogs = [], [], []
    page.on("dialog", lambda dialog: (page.dialogs.append(dialog.message), dialog.dismiss()))
    page.on("popup", lambda popup: page.popups.append(popup))
    page.add_init_script(WATCH)
    page.route(
        lambda address: urlsplit(address).scheme not in ("file", "data") and urlsplit(address).hostname != "127.0.0.1",
        lambda route: (page.far.append(route.request.url), route.abort()),
    )
    yield page
    context.close()
