"""Every kind of attack that pays, or has paid, is flagged by the words that it is written in."""

import re
import time
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.core.flag import REASONS
from autograder.flags.beside import Beside
from autograder.flags.submission import MOST_FLAGS, flags_of

_HEAD = re.compile(r"^# %% (\w+): (.+)\n", re.MULTILINE)
_PARTS = _HEAD.split(Path(__file__).with_name("attacks.txt").read_text())[1:]
ATTACKS = {name: source.strip() for name, source in zip(_PARTS[::3], _PARTS[2::3], strict=True)}


def flags(*sources, beside=None, compiled=()):
    notebook = new_notebook(cells=list(map(new_code_cell, sources)))
    return flags_of("views", notebook, Beside(beside or {}, compiled))


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_flagged(name):
    assert flags(ATTACKS[name])


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_flagged_too_where_the_course_imports_for_it(name):
    """A notebook's first cell, which is the course's, imports torch: what a name stands for is found in all cells."""
    lines = ATTACKS[name].split("\n")
    imports = [line for line in lines if re.match(r"(import|from) ", line)]
    where = [number for number, line in enumerate(lines, 1) if line not in imports]
    if any(flag.line in where for flag in flags(ATTACKS[name])):
        locked = new_code_cell("\n".join(imports), metadata={"nbgrader": {"locked": True, "grade_id": "setup"}})
        answer = new_code_cell("\n".join(line for line in lines if line not in imports))
        assert flags_of("views", new_notebook(cells=[locked, answer]))


def test_every_kind_but_what_cannot_be_read_is_among_them():
    assert {flag.kind for source in ATTACKS.values() for flag in flags(source)} == REASONS.keys() - {"unreadable"}


@pytest.mark.parametrize("name", ["reading_replaced", "loss_by_address", "closure_read"])
def test_in_a_file_beside_the_notebook_too(name):
    found = flags("import helper", beside={"helper.py": ATTACKS[name].encode()})
    assert {flag.cell for flag in found} == {"helper.py"}


@pytest.mark.parametrize("file", ["torch.py", "ctypes/harmless.py", "gpulab/__init__.py", "tqdm.py"])
def test_a_file_that_is_imported_in_the_place_of_a_library_is_flagged_and_hides_no_other(file):
    found = flags("import ctypes", beside={file: b"x = 1"})
    assert [(flag.cell, flag.kind) for flag in found] == [(file, "patch"), ("cell 1", "system")]


@pytest.mark.parametrize("file", ["helper.so", "helper/__init__.pyc", "path.pth"])
def test_what_python_imports_and_nobody_reads_is_flagged(file):
    assert [(flag.cell, flag.kind) for flag in flags("x = 1", compiled=(file,))] == [(file, "unreadable")]


@pytest.mark.parametrize("encoding", ["utf-7", "latin-1", "unicode_escape"])
def test_a_file_is_read_in_the_encoding_that_it_names(encoding):
    source = f"# coding: {encoding}\nd\u00e9 = 1\nimport ctypes\n".encode("latin-1")
    source = (
        source.replace(b"d\xe9 = 1\nimport ctypes", b"+AGkAbQBwAG8AcgB0- ctypes") if encoding == "utf-7" else source
    )
    assert [flag.name for flag in flags("import helper", beside={"helper.py": source})] == ["ctypes"]


@pytest.mark.parametrize("depth", [1_100, 2_900, 30_000])
@pytest.mark.parametrize("nested", ["a = {}", "x = {}1"])
def test_what_is_nested_too_deeply_to_be_read_is_flagged(nested, depth):
    code = nested.format("a" + ".b" * depth if nested.startswith("a") else "1 + " * depth)
    assert [flag.kind for flag in flags(code, "y = 1")] == ["unreadable"]


def test_what_is_longer_than_is_read_is_flagged():
    assert [flag.kind for flag in flags("x = 1\n" * 200_000)] == ["unreadable"]


def test_what_is_no_python_is_not_flagged_for_it_does_not_run():
    assert flags("import ctypes; def f(") == []


def test_the_threat_model_says_what_is_flagged():
    page = (Path(__file__).parents[2] / "chapters" / "instructors" / "threat-model.md").read_text()
    assert [kind for kind, reason in REASONS.items() if f"| {reason.partition(':')[0]} |" not in page] == []


@pytest.mark.parametrize(
    "code",
    [
        "\n".join(f"a{i} = a{i - 1}" for i in range(12_000, 0, -1)),
        "\n".join(f"a{i} = a{i - 1}.numpy()" for i in range(10_000, 0, -1)),
        "\n".join(["x = " + " + ".join(["'a'"] * 90)] * 500),
        "exec(1);" * 30_000,
    ],
    ids=["renamed", "viewed", "added", "flagged"],
)
def test_whatever_a_cell_holds_it_is_read_in_seconds(code):
    began = time.process_time()
    assert len(flags(code)) <= MOST_FLAGS and time.process_time() - began < 10
