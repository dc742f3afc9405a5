"""The formgrader in JupyterLab works on the course as it is configured."""

import json
import os
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.pipeline.conftest import ROOT


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
    environment = os.environ | {"COURSE": str(course.root)}
    with open(course.root / "lab.log", "w") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield _answering(f"http://127.0.0.1:{port}/formgrader", server, course.root / "lab.log")
    finally:
        server.terminate()
        server.wait(30)


def _answering(address, server, log):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urlopen(f"{address}/api/assignments", timeout=5)
            return address
        except URLError:
            time.sleep(0.3)
    raise AssertionError(f"the server did not answer:\n{log.read_text()[-3000:]}")


def test_the_formgrader_grades_a_submission_and_lists_its_score(course, formgrader):
    course.hand_in("by_button", course.answered())
    autograde = Request(f"{formgrader}/api/submission/views/by_button/autograde", method="POST")
    assert json.load(urlopen(autograde, timeout=120))["success"]
    (listed,) = [
        submission
        for submission in json.load(urlopen(f"{formgrader}/api/submissions/views"))
        if submission["student"] == "by_button"
    ]
    assert listed["score"] == listed["max_score"] == sum(course.full_marks().values())
    assert course.entry("by_button")["state"] == "graded"


def test_the_formgrader_shows_the_assignment(formgrader):
    assignments = {found["name"]: found for found in json.load(urlopen(f"{formgrader}/api/assignments"))}
    assert assignments["views"]["num_submissions"] > 0
    page = urlopen(f"{formgrader}/manage_assignments").read().decode()
    assert "formgrade" in page
