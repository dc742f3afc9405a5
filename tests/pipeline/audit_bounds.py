"""The worst that was ever handed in, and what each command that reads it takes: seconds, memory, disk."""

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.lms.archives import MAX_HAND_IN_BYTES
from autograder.nbgrader.size_of_page import MOST_OF_A_PAGE
from tests.pipeline.conftest import ROOT, Course

MIB = 1024**2
MOST_PAGE_SECONDS = 20
MOST_MEMORY_BYTES = 1.5 * 1024**3
"""Of the process that a command is: kernels have a bound of their own."""


def keys(notebook: NotebookNode) -> str:
    return json.dumps(notebook | {"metadata": {f"{number}": 0 for number in range(4_000_000)}})


def texts(notebook: NotebookNode) -> str:
    return json.dumps(notebook | {"metadata": {"a": ["ab"] * 10_000_000}}, separators=(",", ":"))


def statements(notebook: NotebookNode) -> str:
    sources = (f"def compact(x):\n {'a=x;' * (9500 + number)}x" for number in range(85))
    return json.dumps(notebook | {"cells": [*notebook.cells, *map(new_code_cell, sources)]})


def one_line(notebook: NotebookNode) -> str:
    return json.dumps(
        notebook | {"cells": [*notebook.cells, new_code_cell(f"def compact(x): return {'x+' * 2_000_000}x")]}
    )


def markdown(notebook: NotebookNode) -> str:
    """Of forty kinds that nbconvert's renderer takes longest for."""
    slow = [new_markdown_cell("\\begin{a}" * 7200) for _ in range(400)]
    return json.dumps(notebook | {"cells": [*notebook.cells, *slow]})


def definitions(notebook: NotebookNode) -> str:
    far = f"[a]: https://example.com/{'a' * 30_000}\n\n{'[a] ' * 8000}"
    return json.dumps(notebook | {"cells": [*notebook.cells, *(new_markdown_cell(far) for _ in range(350))]})


def colours(notebook: NotebookNode) -> str:
    prints = [new_code_cell("print('\\x1b[31mx\\x1b[0m' * 25_000)") for _ in range(120)]
    return json.dumps(notebook | {"cells": [*notebook.cells, *prints]})


def prints(notebook: NotebookNode) -> str:
    cells = [new_code_cell("print(('x' * 99 + '\\n') * 2500)") for _ in range(400)]
    return json.dumps(notebook | {"cells": [*notebook.cells, *cells]})


def raises(notebook: NotebookNode) -> str:
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution") and cell.cell_type == "code":
            name = cell.metadata["nbgrader"]["grade_id"]
            cell.source = f"def {name}(*a, **k): raise ValueError('\\x1b[31m`<b>' * 1_000_000)"
    return json.dumps(notebook)


WORST: list[Callable[[NotebookNode], str]] = [
    keys,
    texts,
    statements,
    one_line,
    markdown,
    definitions,
    colours,
    prints,
    raises,
]
each = pytest.mark.parametrize("name", [kind.__name__ for kind in WORST])


@dataclass(frozen=True)
class Taken:
    """Of one command: ``cpu_seconds`` and ``peak_bytes`` of its own process and those it waited for."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    written_bytes: int


def taken(course: Course, *command: str, status: int = 0) -> Taken:
    before, began = _size(course.root), time.monotonic()
    with open(course.root.parent / "said.txt", "w+") as said:
        environment = os.environ | {"COURSE": str(course.root)}
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT
        )
        _, ended, used = os.wait4(process.pid, 0)
        said.seek(0)
        assert os.waitstatus_to_exitcode(ended) == status, said.read()[-2000:]
    cpu = used.ru_utime + used.ru_stime
    return Taken(time.monotonic() - began, cpu, used.ru_maxrss * 1024, _size(course.root) - before)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def worst(tmp_path_factory) -> Course:
    course = Course(tmp_path_factory.mktemp("worst") / "course")
    for kind in WORST:
        course.hand_in(kind.__name__, kind(course.notebook("release")).encode())
    beside = course.hand_in("beside", course.notebook("release"))
    for number in range(990):
        (beside / f"{number}.bin").write_bytes(os.urandom(130 * 1024))
    return course


@pytest.fixture(scope="module")
def graded(worst) -> dict[str, Taken]:
    names = [*(kind.__name__ for kind in WORST), "beside"]
    options = ("--create", "--force", "--ExecuteGraded.submission_seconds=30")
    return {name: taken(worst, "nbgrader", "autograde", "views", f"--student={name}", *options) for name in names}


@pytest.mark.parametrize("name", [*(kind.__name__ for kind in WORST), "beside"])
def test_autograde(graded, name):
    one = graded[name]
    assert one.seconds < 30 + 60 and one.peak_bytes < MOST_MEMORY_BYTES
    assert one.written_bytes < (130 if name == "beside" else 70) * MIB


@each
def test_feedback(worst, graded, name):
    one = taken(worst, "nbgrader", "generate_feedback", "views", f"--student={name}", "--force")
    assert one.cpu_seconds < MOST_PAGE_SECONDS + 15 and one.peak_bytes < MOST_MEMORY_BYTES
    assert one.written_bytes < 2 * MOST_OF_A_PAGE + 2 * MIB


def test_similar(worst, graded):
    one = taken(worst, "autograder", "similar", "views")
    assert one.cpu_seconds < 10 * len(WORST) and one.peak_bytes < MOST_MEMORY_BYTES and one.written_bytes == 0


@pytest.mark.parametrize("exporter", ["ByCriterion", "Moodle", "Canvas"])
def test_export(worst, graded, exporter):
    to = worst.root / f"{exporter}.csv"
    one = taken(worst, "nbgrader", "export", f"--exporter=autograder.nbgrader.export.{exporter}", f"--to={to}")
    assert one.cpu_seconds < 15 and one.peak_bytes < MOST_MEMORY_BYTES and one.written_bytes < MIB


def test_report(worst, graded):
    one = taken(worst, "autograder", "report", "views")
    assert one.cpu_seconds < 15 and one.peak_bytes < MOST_MEMORY_BYTES and one.written_bytes < 2 * MIB


@pytest.mark.parametrize("name", ["keys", "texts", "statements", "definitions", "raises"])
def test_mark(worst, name):
    notebook = worst.root / "submitted" / name / "views" / "views.ipynb"
    one = taken(worst, "autograder", "mark", str(notebook), "--no-browser")
    assert one.cpu_seconds < 60 and one.peak_bytes < MOST_MEMORY_BYTES
    assert one.written_bytes < 2 * MIB


def test_collect(worst):
    archive = worst.root / "hand-ins.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
        for number in range(3):
            zipped.writestr(f"x{number}_{number}_1_a.npy", bytes(MAX_HAND_IN_BYTES + 1))
        zipped.writestr("x3_3_1_a.npy", bytes(MAX_HAND_IN_BYTES))
    for number in range(4):
        add = ("nbgrader", "db", "student", "add", f"x{number}", f"--lms-user-id={number}")
        taken(worst, *add)
    one = taken(worst, "autograder", "collect", "views", str(archive), status=1)
    assert one.cpu_seconds < 20 and one.peak_bytes < MOST_MEMORY_BYTES and one.written_bytes == MAX_HAND_IN_BYTES
