"""Files beside a notebook are there while it is graded; where an instructor works nothing of them is a program or a page."""

import json
import shutil
import subprocess
import sys

import pytest
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbformat.v4 import new_code_cell

from autograder.intake.beside import PACKED, lay_out, put_away
from tests.pipeline.conftest import ROOT

_PROGRAMS = (
    "mytools.py ipykernel_launcher.py sitecustomize.py nbgrader_config.py nbgrader_config.json jupyter_config.json "
    "index.html feedback.svg drawing.xhtml evil.js kernel.json .pdbrc .env startup.pth torch.so page.htm x.ipynb.html"
).split()
_DATA = "data.csv numbers.npy picture.png notes.txt photo.JPG".split()


@pytest.fixture(scope="module")
def handed_in(course):
    """A submission whose answers need the files beside it."""
    notebook = course.answered()
    needed = (
        "from mytools import tiles\nassert tiles == 3 and open('data.csv').read() and open('deeper/more.py').read()"
    )
    notebook.cells.insert(1, new_code_cell(f"{needed}\nright = tiles"))
    notebook.cells.insert(2, new_code_cell("assert right"))
    folder = course.hand_in("beside", notebook)
    (folder / "deeper").mkdir()
    for name in [*_PROGRAMS, *_DATA, "deeper/more.py", "deeper/more.csv"]:
        (folder / name).write_text("tiles = 3\n")
    assert course.autograde("beside")["success"]
    return course


def test_they_are_there_while_the_notebook_runs(handed_in):
    assert handed_in.scores("beside") == handed_in.full_marks()
    graded = json.loads((handed_in.root / "autograded" / "beside" / "views" / "views.ipynb").read_text())
    assert not [cell for cell in graded["cells"] if any(out.get("ename") for out in cell.get("outputs", []))]


def test_data_and_pictures_alone_lie_open_in_the_graded_folder(handed_in):
    graded = handed_in.root / "autograded" / "beside" / "views"
    found = {str(path.relative_to(graded)) for path in graded.rglob("*") if path.is_file()}
    assert found == {*_DATA, "deeper/more.csv", PACKED, "timestamp.txt", "views.ipynb"}


@pytest.mark.parametrize("packed", [False, True])
def test_a_time_that_lies_beside_a_notebook_further_down_is_not_that_of_the_hand_in(course, packed):
    learner = f"nested-{packed}"
    folder = course.hand_in(learner, course.answered())
    deeper = folder / "week 1"
    deeper.mkdir()
    (folder / "views.ipynb").rename(deeper / "views.ipynb")
    (deeper / "timestamp.txt").write_text("2031-01-01 00:00:00 UTC")
    if packed:
        shutil.make_archive(str(folder / "all"), "zip", folder, "week 1")
        shutil.rmtree(deeper)
    assert course.autograde(learner)["success"] and course.scores(learner) == course.full_marks()
    graded = course.root / "autograded" / learner / "views" / "timestamp.txt"
    assert graded.read_text() == "2026-01-01 00:00:00 UTC"


def test_feedback_is_the_page_alone(handed_in):
    handed_in.feedback("beside")
    fed_back = handed_in.root / "feedback" / "beside" / "views"
    assert sorted(path.name for path in fed_back.rglob("*")) == ["timestamp.txt", "views.html"]


def test_what_was_put_away_is_laid_out_as_it_was(tmp_path):
    names = ["a.py", "b/c.PNG", "b/d.html", PACKED, "odd\udcff.py", ".hidden.txt"]
    for name in names:
        (tmp_path / "staged" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "staged" / name).write_text(ascii(name))
    put_away(tmp_path / "staged", tmp_path / "away")
    (tmp_path / "work").mkdir()
    lay_out(tmp_path / "away", tmp_path / "work")
    assert {name: (tmp_path / "work" / name).read_text() for name in names} == {name: ascii(name) for name in names}


@pytest.fixture
def lab_kernels(monkeypatch):
    """Kernel specifications as `make lab` finds them."""
    assert "JUPYTER_PATH=$(CURDIR)/tools/lab" in (ROOT / "Makefile").read_text()
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT / "tools" / "lab"))
    return KernelSpecManager()


def test_a_kernel_of_make_lab_runs_nothing_that_lies_beside_the_notebook(tmp_path, lab_kernels):
    for name in ("ipykernel_launcher", "sitecustomize", "json", "random", "matplotlib", "this"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')")
    manager = KernelManager(kernel_name="python3", kernel_spec_manager=lab_kernels)
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive("import json, random, this", timeout=60, output_hook=lambda message: None)
        assert reply["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_the_ordinary_kernel_would_have(tmp_path):
    """The reason for the one above."""
    (tmp_path / "ipykernel_launcher.py").write_text("print('ran')")
    done = subprocess.run(
        [sys.executable, "-m", "ipykernel_launcher"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "ran\n"
