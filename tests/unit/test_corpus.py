"""The format of files with many attempts: what is read, and what is refused with its line."""

import pytest

from autograder.core.problems import Unreadable
from autograder.misconceptions.corpus import Attempt, as_text, attempts_at, read_corpus

TEXT = """\
# Attempts of somebody's.

# %% wrong double forgets loses=values,one rank breaks=c1,c3 says=no_factor
def double(x):
    return x

# %% wrong double crashes
import math
double = math.sqrt

# %% right double adds
def double(x):
    # %% is no head inside a line
    return x + x

# %% cheat double equals_everything
from unittest.mock import ANY
def double(x):
    return ANY
"""


@pytest.fixture
def read(tmp_path):
    def reader(text: str) -> list[Attempt]:
        (tmp_path / "sums.py").write_text(text, "utf-8")
        return read_corpus(tmp_path / "sums.py")

    return reader


def test_a_head_says_what_an_attempt_is_to_lose_and_which_misconception_it_is_a_form_of(read):
    forgets, crashes, adds, equals = read(TEXT)
    assert forgets == Attempt(
        "double",
        "forgets",
        "def double(x):\n    return x\n",
        "wrong",
        ("values", "one rank"),
        ("c1", "c3"),
        "no_factor",
    )
    assert crashes.kind == "wrong" and crashes.loses is None
    assert adds.kind == "right" and adds.loses == () and adds.source.endswith("return x + x\n")
    assert equals.kind == "cheat" and equals.loses is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# %% wrong double crashes", "# %% wrong double forgets", "sums.py:7: double has an attempt forgets already"),
        ("# %% right double adds", "# %% good double adds", "sums.py:11: `# %% good double adds` is no head"),
        ("double adds", "double adds loses=values", "sums.py:11: a right attempt has no loses"),
        ("equals_everything", "equals_everything loses=values", "sums.py:16: a cheat attempt has no loses"),
        ("says=no_factor", "because=no_factor", "sums.py:3: a wrong attempt has no because"),
        ("loses=values,one rank", "loses=values,", "sums.py:3: loses=values, names no criteria"),
        ("loses=values,one rank", "loses=", "sums.py:3: loses= names no criteria"),
        ("breaks=c1,c3", "breaks=c1,", "sums.py:3: breaks=c1, names no clauses"),
        ("def double(x):\n    return x\n", "def half(x):\n    return x\n", "sums.py:3: the source defines no double"),
        ("return x + x", "return x +", "sums.py:14: SyntaxError: invalid syntax"),
        ("# Attempts of", "import torch  # of", "sums.py:1: code above the first head"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(read, old, new, says):
    assert old in TEXT
    with pytest.raises(Unreadable) as why:
        read(TEXT.replace(old, new, 1))
    assert says in str(why.value)


def test_a_file_may_hold_no_attempt_and_one_that_is_missing_is_said(read, tmp_path):
    assert read("# nothing\n") == []
    with pytest.raises(Unreadable, match="none.txt: it is missing"):
        read_corpus(tmp_path / "none.txt")


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "corpus.txt"
    attempts = [
        Attempt("rows", name, f"def rows(x):\n    return {name!r}\n", "wrong", ("values", "copies"), (), "adds")
        for name in ("one", "other")
    ]
    path.write_text(as_text(attempts))
    assert read_corpus(path) == attempts_at(path, "rows") == attempts
    assert attempts_at(path, "columns") == []
