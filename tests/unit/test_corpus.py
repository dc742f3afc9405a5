"""The format of files with many solutions: what is read, and what is refused with its line."""

import pytest

from autograder.authoring.corpus import Solution, read_corpus
from autograder.authoring.mistakes import Unreadable

TEXT = """\
# Solutions of somebody's.

# %% wrong double forgets loses=values,errors says=no_factor
def double(x):
    return x

# %% wrong double crashes
import math
double = math.sqrt

# %% right double adds
def double(x):
    # %% is no head inside a line
    return x + x
"""


@pytest.fixture
def read(tmp_path):
    def reader(text: str) -> list[Solution]:
        (tmp_path / "sums.py").write_text(text, "utf-8")
        return read_corpus(tmp_path / "sums.py")

    return reader


def test_a_head_says_what_a_solution_is_to_lose_and_which_misconception_it_is_a_form_of(read):
    forgets, crashes, adds = read(TEXT)
    assert forgets == Solution(
        "double", "forgets", "def double(x):\n    return x\n", True, ("values", "errors"), "no_factor"
    )
    assert crashes.wrong and crashes.loses is None
    assert not adds.wrong and adds.loses == () and adds.source.endswith("return x + x\n")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# %% wrong double crashes", "# %% wrong double forgets", "sums.py:7: double has a solution forgets already"),
        ("# %% right double adds", "# %% good double adds", "sums.py:11: `# %% good double adds` is no head"),
        ("double adds", "double adds loses=values", "sums.py:11: a right solution has no loses"),
        ("says=no_factor", "because=no_factor", "sums.py:3: a wrong solution has no because"),
        ("loses=values,errors", "loses=values,", "sums.py:3: loses=values, names no criteria"),
        ("loses=values,errors", "loses=", "sums.py:3: loses= names no criteria"),
        ("def double(x):\n    return x\n", "def half(x):\n    return x\n", "sums.py:3: the source defines no double"),
        ("return x + x", "return x +", "sums.py:11: SyntaxError"),
        ("# Solutions of", "import torch  # of", "sums.py:1: code above the first head"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(read, old, new, says):
    assert old in TEXT
    with pytest.raises(Unreadable) as why:
        read(TEXT.replace(old, new, 1))
    assert says in str(why.value)


def test_a_file_without_a_solution_is_refused(read):
    with pytest.raises(Unreadable, match="no solution in it"):
        read("# nothing\n")
