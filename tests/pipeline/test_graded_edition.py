"""The graded edition as an instructor makes it and a learner meets it: the wheel, the service, the hidden tests themselves."""

import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograder.core.layout import ROOT
from autograder.sandbox import marker
from autograder.selfcheck.chapters import Chapter
from autograder.selfcheck.wheel import write_client_wheel


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Its process; ``address``, ``course``."""
    course = tmp_path_factory.mktemp("class")
    command = [sys.executable, "-m", "autograder", "marking", "serve", "--port", "0", "--tries", "2"]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"COURSE": str(course)}, stdout=-1, text=True)
    process.course = course
    process.address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.fixture(scope="module")
def installed(service, tmp_path_factory) -> Path:
    """An environment that holds the client's wheel and nothing else at all."""
    folder = tmp_path_factory.mktemp("learner")
    wheel = write_client_wheel(ROOT, folder, service.address)
    names = zipfile.ZipFile(wheel).namelist()
    held = {name for name in names if not name.startswith(("autograder/client/", "gpulab_mark-"))}
    assert held == {f"autograder/core/{name}.py" for name in ("__init__", "marks", "printable", "screen")}
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    run = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet", "--no-index"]
    subprocess.run([*run, wheel], check=True)
    return environment


def token(service, student: str) -> str:
    command = [sys.executable, "-m", "autograder", "marking", "tokens", student]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"COURSE": str(service.course)}, capture_output=True, text=True
    )
    return done.stdout.splitlines()[1].split(",")[1]


def test_a_learner_is_told_what_is_lost_and_hints_and_no_solution(service, installed, course, tmp_path):
    nbformat.write(course.answered(to_tokens="def to_tokens(x):\n    return x\n"), tmp_path / "views.ipynb")
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "GPULAB_MARK_TOKEN": token(service, "ada")}
    mark = [installed / "bin" / "gpulab-mark", "views.ipynb", "--no-browser"]
    done = subprocess.run(mark, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"patchify +8 of 8", done.stdout) and re.search(r"to_tokens +0 of 8", done.stdout)
    assert "24 of 32 points" in done.stdout and "1 of 2 tries are left." in done.stdout
    page = (tmp_path / "views-marked.html").read_text("utf-8")
    assert "A hint" in page and "Another hint" in page and "solution" not in page and "file://" not in page
    chapter = Chapter(ROOT / "exercises" / "views")
    own = {line.strip() for name in chapter.functions.values() for line in chapter.solution(name).splitlines()}
    assert not [line for line in own if len(line) > 40 and line in page]


def test_a_machine_that_grades_has_nothing_to_hide_of_the_client(installed):
    assert marker.folders([str(installed)]) == []


@pytest.mark.audit
@pytest.mark.parametrize("at", ["https://marks.example.org", ""])
def test_make_release_makes_it_and_finds_no_solution_in_it(at):
    done = subprocess.run([sys.executable, "tools/release.py", "graded", at], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("No solution and no hidden test is in it.\n")
    (site,) = (ROOT / "_build" / "graded" / "release").glob("*-graded-site.zip")
    with zipfile.ZipFile(site) as archive:
        (page,) = (name for name in archive.namelist() if name.endswith("chapters/tensors/views.html"))
        text = archive.read(page).decode()
    assert ("gpulab-mark" in text) == bool(at) and at in text and "solution after full marks" not in text
    assert "(graded) of 20" in text
