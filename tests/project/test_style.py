"""Python is written as ruff, pinned in constraints.txt, formats it, and breaks none of the rules that pyproject.toml names."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ruff(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ruff", *words, "--no-cache", "--config", ROOT / "pyproject.toml", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("words", [("format", "--diff", "--quiet"), ("check", "--output-format=concise")], ids=" ".join)
def test_every_file_is_as_make_format_leaves_it(words):
    done = ruff(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_that_is_formatted_otherwise_or_has_an_unused_import_is_found(tmp_path):
    (tmp_path / "odd.py").write_text("import os\nx = {  'a':1 }\n")
    assert "odd.py" in ruff("format", "--diff", folder=tmp_path).stdout
    assert "F401" in ruff("check", "--output-format=concise", folder=tmp_path).stdout
