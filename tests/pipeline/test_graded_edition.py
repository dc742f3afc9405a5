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

from autograder.cli.main import main
from autograder.core.edition import edition
from autograder.core.layout import ROOT
from autograder.marking.records import Records
from autograder.sandbox import marker
from autograder.selfcheck.chapters import Chapter
from autograder.selfcheck.wheel import write_client_wheel


def marking(course: Path, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "autograder", "marking", *words]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"COURSE": str(course)}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Its process; ``address``, ``course``, and ``token``, which is ada's."""
    course = tmp_path_factory.mktemp("class")
    token = marking(course, "tokens", "ada").stdout.splitlines()[1].split(",")[1]
    command = [sys.executable, "-m", "autograder", "marking", "serve", "--port", "0", "--tries", "2"]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"COURSE": str(course)}, stdout=-1, text=True)
    process.course, process.token = course, token
    process.address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.fixture(scope="module")
def installed(service, tmp_path_factory) -> Path:
    """An environment that holds the client's wheel and nothing else at all."""
    folder = tmp_path_factory.mktemp("learner")
    wheel = write_client_wheel(ROOT, folder, edition("graded", service.address))
    names = zipfile.ZipFile(wheel).namelist()
    held = {name for name in names if not name.startswith(("autograder/client/", "gpulab_mark-"))}
    assert held == {f"autograder/core/{name}.py" for name in ("__init__", "marks", "printable", "screen")}
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    run = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet", "--no-index"]
    subprocess.run([*run, wheel], check=True)
    return environment


def test_a_learner_is_told_what_is_lost_and_hints_and_no_solution(service, installed, course, tmp_path):
    nbformat.write(course.answered(to_tokens="def to_tokens(x):\n    return x\n"), tmp_path / "views.ipynb")
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "GPULAB_MARK_TOKEN": service.token}
    mark = [installed / "bin" / "gpulab-mark", "views.ipynb", "--no-browser"]
    done = subprocess.run(mark, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"patchify +8 of 8", done.stdout) and re.search(r"to_tokens +0 of 8", done.stdout)
    assert "24 of 32 points" in done.stdout and "Tries left: 1 of 2\n" in done.stdout
    assert re.search(r"  ada  views  24 of 32 points  .*/marking/ada/views/", marking(service.course, "list").stdout)
    page = (tmp_path / "views-marked.html").read_text("utf-8")
    assert "A hint" in page and "Another hint" in page and "solution" not in page and "file://" not in page
    chapter = Chapter(ROOT / "exercises" / "views")
    own = {line.strip() for name in chapter.functions.values() for line in chapter.solution(name).splitlines()}
    assert not [line for line in own if len(line) > 40 and line in page]


SPIES = """\
import time
k = get_ipython().kernel
k.session.pack = lambda told: __import__("json").dumps(told, default=str).encode()
k.send_response(k.iopub_socket, "error", {"ename": "A\\ud800", "evalue": "b", "traceback": ["x"]})
"""


def test_a_notebook_that_breaks_the_page_with_its_text_is_marked_all_the_same(course, tmp_path):
    notebook = course.answered()
    notebook.cells.append(nbformat.v4.new_code_cell(SPIES))
    record = Records(tmp_path).of("ada", "views", "00")
    record.begin(nbformat.writes(notebook).encode())
    subprocess.run([sys.executable, "-m", "autograder.marking.one", record.folder], cwd=ROOT, check=True)
    assert record.was_run and record.said() == "32 of 32 points" and r"A\ud800" in record.page()


def test_only_the_chapter_whose_tries_are_used_is_marked(course, tmp_path):
    record = Records(tmp_path).of("ada", "kernels", "00")
    record.begin(nbformat.writes(course.answered()).encode())
    subprocess.run([sys.executable, "-m", "autograder.marking.one", record.folder], cwd=ROOT, check=True)
    assert not record.was_run and "exercises of no chapter known here (kernels)" in record.said()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "--jobs", "0"], "a number from 1 is needed"),
        (["serve", "--port", "99999"], "a number from 0 to 65535 is needed"),
        (["serve", "--key", "key.pem"], "--key is that of a --certificate."),
        (["serve", "--certificate", "/no/such.pem"], "/no/such.pem"),
        (["serve", "--host", "0.0.0.0"], "--host 0.0.0.0 needs --certificate"),
        (["serve", "--tries", "veiws=3"], "there is no chapter 'veiws'"),
        (["tokens", "secret"], "'secret' cannot name a folder"),
    ],
)
def test_what_an_instructor_mistypes_is_said_in_a_sentence(service, monkeypatch, capsys, words, says):
    monkeypatch.setenv("COURSE", str(service.course))
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(["marking", *words]))
    assert ended.value.code == 2 and says in capsys.readouterr().err


def test_a_course_without_students_and_one_without_tokens_and_no_course_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE", str(tmp_path / "mistyped"))
    assert main(["marking", "tokens"]) == 2 and "There is no course folder" in capsys.readouterr().err
    monkeypatch.setenv("COURSE", str(tmp_path))
    assert main(["marking", "serve"]) == 2 and "Nobody has a token" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert "The gradebook knows no students" in marking(tmp_path, "tokens").stderr


def test_a_machine_that_grades_has_nothing_to_hide_of_the_client(installed):
    assert marker.folders([str(installed)]) == []


@pytest.mark.audit
@pytest.mark.parametrize("at", ["https://marks.example.org", ""])
def test_make_release_makes_it_and_finds_no_solution_in_it(at):
    done = subprocess.run([sys.executable, "tools/release.py", "graded", at], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "No solution and no hidden test is in it.\n" in done.stdout
    (site,) = (ROOT / "_build" / "graded" / "release").glob("*-graded-site.zip")
    with zipfile.ZipFile(site) as archive:
        (page,) = (name for name in archive.namelist() if name.endswith("chapters/tensors/views.html"))
        text = archive.read(page).decode()
    assert (
        ("gpulab_mark-" in text) == ("+graded.at" in text) == bool(at)
        and at in text
        and "solution after full marks" not in text
    )
    assert "(graded) of 20" in text
