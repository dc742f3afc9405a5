"""Small classes, a Dask scheduler, a PostgreSQL server: all real, all on this machine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autograder.grading.job import Job
from tests.pipeline.conftest import ROOT, Course

NO_POSTGRESQL = (
    "these tests need PostgreSQL's server programs: install Debian's package "
    "(apt-get install postgresql) or put its bin folder (initdb, pg_ctl) on PATH"
)
LAZY = "def patchify(*arguments):\n    return arguments[0]"
EXITS = "import os; os._exit(0)"
HANGS = "def patchify(*arguments):\n    while True: pass"


class Group(Course):
    """A course with a handful of submissions that end in different ways."""

    def hand_in_all(self, copies: int = 1) -> list[str]:
        answers = {"right": {}, "lazy": {"patchify": LAZY}, "exits": {"patchify": EXITS}}
        for name, cells in answers.items():
            for copy in range(copies):
                self.hand_in(f"{name}{copy}", self.answered(**cells))
        return self.students()

    def students(self) -> list[str]:
        return sorted(path.name for path in (self.root / "submitted").iterdir())

    def job(self, *options: str, students: str = "*") -> Job:
        return Job(self.chapter, str(ROOT), str(self.root), students, options)

    def release_into(self, db_url: str) -> None:
        """The assignment in another gradebook, instead of the one in the course folder."""
        command = [sys.executable, "-m", "nbgrader", "generate_assignment", self.chapter, "--create", "--force"]
        command += [f"--CourseDirectory.db_url={db_url}"]
        environment = os.environ | {"COURSE": str(self.root)}
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=600)
        (self.root / "gradebook.db").unlink()

    def command(self, *options: str, **popen) -> subprocess.CompletedProcess:
        """``python -m autograder grade`` as an instructor types it."""
        command = [sys.executable, "-m", "autograder", "grade", self.chapter, *options]
        environment = os.environ | {"COURSE": str(self.root)}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, **popen)


@pytest.fixture
def group(tmp_path) -> Group:
    return Group(tmp_path)


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of a database of its own. The server refuses root: it then runs as another user."""
    binaries = _postgresql_binaries()
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="postgresql-", dir="/tmp"))
    if user:
        shutil.chown(folder, user)

    def run(program: str, *options: str) -> None:
        command = [str(binaries / program), "--pgdata", str(folder / "data"), *options]
        done = subprocess.run(command, cwd=folder, user=user, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"

    run("initdb", "--auth=trust", "--username=grader", "--no-sync")
    serve = f"-c listen_addresses='' -c unix_socket_directories={folder}"
    run("pg_ctl", "--options", serve, "--log", str(folder / "log"), "--wait", "start")
    try:
        yield f"postgresql+psycopg://grader@/postgres?host={folder}"
    finally:
        run("pg_ctl", "--mode=immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _postgresql_binaries() -> Path:
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found is None and not debian:
        pytest.fail(NO_POSTGRESQL)
    return Path(found).resolve().parent if found else debian[-1].parent


def _unprivileged() -> str | None:
    return "nobody" if os.getuid() == 0 else None


@pytest.fixture(scope="module")
def postgresql_url() -> Iterator[str]:
    with postgresql() as url:
        yield url


@contextmanager
def scheduler_and_workers(workers: int) -> Iterator[str]:
    """A scheduler's address; it and its workers are processes of their own, as on a cluster."""
    folder = Path(tempfile.mkdtemp(prefix="dask-"))
    contact = folder / "scheduler.json"
    started = [_dask(folder, "scheduler", "--scheduler-file", str(contact), "--port", "0", "--no-dashboard")]
    options = ["--scheduler-file", str(contact), "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
    started += [_dask(folder, "worker", *options) for _ in range(workers)]
    try:
        yield _address(contact)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=120)
        shutil.rmtree(folder)


def _dask(folder: Path, *arguments: str) -> subprocess.Popen:
    with open(folder / "log", "a") as log:
        return subprocess.Popen([sys.executable, "-m", "dask", *arguments], cwd=ROOT, stdout=log, stderr=log)


def _address(contact: Path, seconds: float = 300) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if contact.exists() and contact.read_text().strip().endswith("}"):
            return json.loads(contact.read_text())["address"]
        time.sleep(0.1)
    pytest.fail(f"the scheduler did not start:\n{(contact.parent / 'log').read_text()}")
