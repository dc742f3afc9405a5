"""Who may import whom, and what no committed file may say."""

import ast
import subprocess
from pathlib import Path

import pytest

from autograder.kernels.sandbox import VISIBLE

ROOT = Path(__file__).parents[2]


def imports(path: Path) -> set[str]:
    """Top-level and nested imports of a file, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def offenders(folder: str, forbidden: tuple[str, ...]) -> list[str]:
    paths = [path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts]
    assert paths, f"{folder} holds no Python file: this test saw nothing"
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in sorted(imports(path))
        if any(name == rule or name.startswith(f"{rule}.") for rule in forbidden)
    ]


def test_gpulab_never_imports_the_autograder():
    assert offenders("gpulab", ("autograder", "nbgrader")) == []


def test_scenarios_never_import_verdicts_or_anything_that_knows_an_answer():
    assert offenders("autograder/scenarios", ("autograder.verdicts", "autograder.referee", "autograder.exercise")) == []


def test_verdicts_never_import_scenarios_or_the_learners_side():
    assert offenders("autograder/verdicts", ("autograder.scenarios", "autograder.proctor")) == []


@pytest.mark.parametrize("name", ["verdicts", "exercise.py", "referee.py", "authoring", "glue", "ledger.py", "draw.py"])
def test_the_sandbox_does_not_hold(name):
    assert not [visible for visible in VISIBLE if visible.startswith(f"autograder/{name}")]


def test_what_the_sandbox_holds_imports_only_what_it_holds():
    held = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in VISIBLE}
    # Imported on the grader's side only, or only when no referee listens.
    outside = {"autograder.referee", "autograder.report"}
    for name in VISIBLE:
        path = ROOT / name
        for file in [path] if path.is_file() else path.rglob("*.py"):
            for imported in imports(file):
                if imported.startswith("autograder.") and imported not in outside:
                    assert any(imported == h or imported.startswith(f"{h}.") for h in held), (file, imported)


def test_no_committed_file_holds_a_path_of_the_machine_it_was_made_on():
    marks = ["/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/"]
    pattern = "|".join(marks)
    found = subprocess.run(
        ["git", "grep", "-nIE", pattern, "--", ".", ":!LICENSE"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    assert found == ""
