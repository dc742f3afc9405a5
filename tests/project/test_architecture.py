"""Who may import whom, and what no committed file may say."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.core.layout import beside_the_learner
from autograder.sandbox.sandbox import VISIBLE

ROOT = Path(__file__).parents[2]
HELD = (*VISIBLE, *beside_the_learner())


def imports(path: Path) -> set[str]:
    """Top-level and nested imports of a file, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


# A namespace package, as `exercises`, is made of all folders of its name on the path: an editable install puts this
# repository there, beside the copy that is asked about.
_LINT = """
import os, sys
sys.path[:] = [path for path in sys.path if path != os.environ["ELSEWHERE"]]
from importlinter.cli import lint_imports_command
lint_imports_command()
"""


def contracts(root: Path, tmp_path: Path) -> subprocess.CompletedProcess:
    """What import-linter says of the packages in ``root``, by the contracts of ``.importlinter``."""
    command = [sys.executable, "-c", _LINT, "--no-logo", "--config", ROOT / ".importlinter", "--cache-dir", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(root), "ELSEWHERE": "" if root == ROOT else str(ROOT)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def test_nobody_imports_what_he_may_not_and_nothing_in_a_circle(tmp_path):
    said = contracts(ROOT, tmp_path)
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("gpulab/units.py", "import autograder.core.sampler", "What learners install"),
        ("autograder/core/exercise.py", "from exercises.views.compact import judge", "The autograder holds no chapter"),
        ("exercises/views/compact/run.py", "from exercises.views.patchify import judge", "What runs beside"),
        ("exercises/views/compact/run.py", "from autograder.core import exercise", "What runs beside"),
        ("exercises/views/compact/judge.py", "from exercises.views.compact import run", "Judges never touch"),
        ("autograder/judge/expect.py", "from autograder.runner import scenario_runner", "Judges never touch"),
        ("gpulab/units.py", "import gpulab.plots.figure", "No folder and no file"),
    ],
)
def test_a_wall_that_is_broken_is_said(tmp_path, file, line, broken):
    for package in ("gpulab", "autograder", "exercises"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / file
    path.write_text(f"{path.read_text()}\n\ndef late():\n    {line}\n")
    said = contracts(tmp_path, tmp_path / "cache")
    assert said.returncode == 1
    assert any(text.startswith(broken) and text.endswith("BROKEN") for text in said.stdout.splitlines()), said.stdout


def test_pages_import_no_more_than_a_learner_has():
    pages = sorted((ROOT / "chapters").rglob("*.md"))
    assert pages and not [
        page for page in pages if re.search(r"^\s*(from|import) autograder\b", page.read_text("utf-8"), re.M)
    ]


@pytest.mark.parametrize(
    "name",
    [
        "autograder/authoring",
        "autograder/core/exercise.py",
        "autograder/core/ledger.py",
        "autograder/core/sampler.py",
        "autograder/judge",
        "autograder/nbgrader",
        "autograder/notebooks",
        "autograder/selfcheck",
        "exercises/views/compact/judge.py",
        "exercises/views/compact/misconceptions.yml",
        "exercises/views/hints.yml",
        "exercises/views/corpus.txt",
        "exercises/views/notebook.py",
        "exercises/views/pictures.py",
        "exercises/views/trials.json",
    ],
)
def test_the_sandbox_does_not_hold(name):
    assert (ROOT / name).exists()
    assert not [one for one in HELD if one.startswith(name) or name.startswith(f"{one}/")]


def test_what_the_sandbox_holds_imports_only_what_it_holds():
    # The package's own file holds no module: "autograder" is the beginning of every name.
    held = {name.removesuffix(".py").replace("/", ".") for name in HELD} - {"autograder.__init__"}
    # Imported on the grader's side only, or only when no referee listens.
    outside = {"autograder.judge.referee", "autograder.core.report"}
    for name in HELD:
        path = ROOT / name
        for file in [path] if path.is_file() else path.rglob("*.py"):
            for imported in imports(file):
                if imported.startswith(("autograder.", "exercises.")):
                    assert any(imported == h or imported.startswith(f"{h}.") for h in held | outside), (file, imported)


def test_no_committed_file_holds_a_path_of_the_machine_it_was_made_on():
    marks = ["/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/"]
    pattern = "|".join(marks)
    found = subprocess.run(
        ["git", "grep", "-nIE", pattern, "--", ".", ":!LICENSE", ":!binder/Dockerfile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    assert found == ""
