"""The lines that a chapter's page prints, done in an environment that holds nothing of the repository."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.drafts import Drafts
from autograder.authoring.pipeline import chapters, write_wheel
from autograder.core.edition import edition
from autograder.selfcheck.wheel import write_mark_wheel
from tests.site.conftest import newest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page():
    """The extension that writes the lines."""
    sys.path.insert(0, str(ROOT / "chapters" / "_extensions"))
    import working_alone

    sys.path.pop(0)
    return working_alone


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the downloads lie: those of the site, as long as nothing that they are made of has changed."""
    folder, made = tmp_path_factory.mktemp("downloads"), ROOT / "_build" / "exercises"
    if (made / ".made").is_file() and (made / ".made").stat().st_mtime > newest(
        "gpulab", "autograder", "exercises", "pyproject.toml"
    ):
        for wheel in made.glob("*.whl"):
            shutil.copy(wheel, folder)
        return folder
    write_wheel(ROOT, folder)
    write_mark_wheel(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def tokens(folder) -> Path:
    """A fresh environment with both wheels. What they depend on is this environment's; the repository is not seen from it."""
    tokens = folder / "tokens"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tokens], check=True)
    run = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        tokens / "bin" / "python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*run, *folder.glob("*.whl")], check=True)
    site = next(tokens.glob("lib/python3*/site-packages"))
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    return tokens


def test_the_lines_name_the_wheels_that_are_written_and_extras_that_there_are(page, folder):
    assert sorted(page.wheels()) == sorted(path.name for path in folder.glob("*.whl"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    typed = "\n".join(page.lines("kernels", ("kernels",)))
    assert f"./{page.wheels()[0]}[lab,kernels]" in typed and {"lab", "kernels"} <= set(extras)
    assert all(len(line) < 80 for line in typed.splitlines())


@pytest.mark.parametrize("service", ["https://marks.example.org", ""])
def test_a_graded_course_s_page_leads_to_its_service_or_to_no_marker_at_all(page, monkeypatch, service):
    for name, value in edition("graded", service).environment().items():
        monkeypatch.setenv(name, value)
    said, typed = page.said("kernels", ("kernels",)), page.lines("kernels", ("kernels",))
    assert ("gpulab_mark" in said) == ("gpulab-mark" in said) == ("token that" in said) == bool(service)
    assert service in said and "solution after" not in said and "your own machine" not in said
    assert typed[-1] == ("gpulab-mark kernels.ipynb" if service else "jupyter lab kernels.ipynb")
    assert [line.endswith("\\") for line in typed[2:]] == [True, bool(service), *[False] * (len(typed) - 4)]


def test_every_chapter_with_exercises_prints_them():
    for name in chapters(ROOT / "exercises"):
        (chapter,) = (ROOT / "chapters").rglob(f"{name}.md")
        assert chapter.read_text("utf-8").count("```{working-alone}") == 1


def test_the_wheel_holds_no_room_of_instructors_and_no_attempts_but_forms_of_misconceptions(page, folder):
    wheel = zipfile.ZipFile(folder / page.wheels()[1])
    held = wheel.namelist()
    assert {
        f"exercises/views/{name}" for name in ("hints.yml", "compact/judge.py", "compact/misconceptions.yml")
    } <= set(held)
    heads = re.findall(r"^# %%.*$", wheel.read("exercises/views/corpus.txt").decode(), re.M)
    assert len(heads) > 50 and all(re.fullmatch(r"# %% wrong \w+ \w+ loses=[\w,]+ says=\w+", head) for head in heads)
    unwanted = (
        "authoring/",
        "autograder/nbgrader/",
        "autograder/client/",
        "grading/",
        "marking/",
        "notebook.py",
        "trials.json",
    )
    assert not [name for name in held if any(word in name for word in unwanted)]


IMPORTS = """\
import importlib, pathlib, pkgutil, gpulab, gpulab.widgets, autograder
[getattr(gpulab.widgets, name) for name in gpulab.widgets.__all__]
for package in (gpulab, autograder):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
site = pathlib.Path(autograder.__file__).parents[1]
for path in (site / "exercises").rglob("*.py"):
    importlib.import_module(".".join(path.relative_to(site).with_suffix("").parts))
"""


def test_the_wheels_hold_nothing_that_drafts_alone_need_and_can_be_imported_whole(page, folder, tokens, tmp_path):
    held = [name for wheel in page.wheels() for name in zipfile.ZipFile(folder / wheel).namelist()]
    assert [name for name in held if Drafts(ROOT).alone_need(name)] == []
    assert sorted(Path(name).stem for name in held if name.endswith(".ipynb")) == chapters(ROOT / "exercises")
    done = subprocess.run(
        [tokens / "bin" / "python", "-P", "-c", IMPORTS], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_last_line_marks_a_notebook_in_the_sandbox_and_without_nbgrader(page, folder, tokens, course):
    nbformat.write(course.answered(), folder / "views.ipynb")
    (next(tokens.glob("lib/python3*/site-packages")) / "nbgrader.py").write_text(
        "raise ImportError('a learner has none')"
    )
    last = page.lines("views")[-1].split()
    environment = {"PATH": f"{tokens / 'bin'}:{os.defpath}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run([*last, "--no-browser"], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "32 of 32 points" in done.stdout and "sandbox" not in done.stdout
    assert (folder / "views-marked.html").is_file()


def test_an_answer_that_breaks_a_hidden_test_is_told_from_a_broken_hidden_test(tokens, tmp_path):
    ask = (
        "from autograder.judge.second_opinion import is_the_learners_fault as its; "
        "print(its(['failed at run.py:1 (KeyError: 1)'], 'views.patchify', 1, 60), its([], 'views.none', 1, 60))"
    )
    done = subprocess.run([tokens / "bin" / "python", "-P", "-c", ask], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr


LOOKS = """\
import importlib.util
for name in ("exercises.views.compact.judge", "exercises.views.pictures", "autograder.selfcheck", "autograder.judge.referee"):
    try:
        print(name, importlib.util.find_spec(name) is not None)
    except ModuleNotFoundError:
        print(name, False)
import autograder, os
import exercises.views.compact.run
for folder in (os.path.dirname(autograder.__file__), *exercises.__path__):
    print(sorted(set(os.listdir(folder)) & {"views.ipynb", "hints.yml", "judge.py"}) or "nothing more")
    try:
        open(os.path.join(folder, "written.py"), "w")
        print("written True")
    except OSError:
        pass
"""


def test_in_the_sandbox_an_installed_autograder_holds_what_the_repositorys_does(tokens, tmp_path):
    """The wheel's files lie in a folder that kernels see: judges and solutions in it are covered."""
    ask = f"from autograder.sandbox import sandbox; import json; print(json.dumps(sandbox.command({str(tmp_path)!r})))"
    python = tokens / "bin" / "python"
    said = subprocess.run([python, "-P", "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    command = json.loads(said)
    remounted = [after for before, after in zip(command, command[1:]) if before == "--remount-ro"]
    assert [Path(path).name for path in remounted] == ["autograder", "exercises"]
    looked = subprocess.run([*command, python, "-P", "-c", LOOKS], capture_output=True, text=True, cwd=tmp_path)
    assert looked.stdout.count("nothing more") == 2 and "True" not in looked.stdout, looked.stderr


FINDS = """\
import pathlib, sys
print("looked")
for folder in sys.path[1:]:
    for name in ("exercises/views/compact/judge.py", "exercises/views/views.ipynb", "autograder/selfcheck/wheel.py"):
        if pathlib.Path(folder, name).exists():
            print(folder, name)
import gpulab, autograder.runner
"""


def test_a_course_that_grades_hides_the_wheel_where_it_is_installed_too(tokens, tmp_path):
    """The solutions lie among the packages of the Python that runs kernels."""
    ask = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from autograder.sandbox import sandbox; import json; "
    ask += f"print(json.dumps([sandbox.markers(), sandbox.command({str(tmp_path)!r})]))"
    python = tokens / "bin" / "python"
    said = subprocess.run([python, "-P", "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    markers, command = json.loads(said)
    assert [Path(path).name for path in markers] == ["autograder", "exercises"]
    finds = f"import sys; sys.path.insert(1, {str(ROOT)!r})\n{FINDS}"
    looked = subprocess.run([*command, python, "-P", "-c", finds], capture_output=True, text=True, cwd=tmp_path)
    assert looked.stdout == "looked\n" and not looked.returncode, looked.stdout + looked.stderr
