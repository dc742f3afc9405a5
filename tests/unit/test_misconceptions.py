"""What an exercise's ``misconceptions.yml`` says, and what is refused with its line."""

import pytest

from autograder.core.problems import Unreadable
from autograder.misconceptions.sentences import EquivalentMutant, Misconception, Said, read_misconceptions

TEXT = """\
misconceptions:
  halves:
    name: half for double
    says: >-
      You divide by two. The function
      multiplies.
    read: Arithmetic
unbreakable:
  c2: it is a permission
equivalent_mutants:
- line: return x + x
  becomes: return 2 * x
  because: both are
"""


@pytest.fixture
def read(tmp_path):
    def reader(text: str) -> Said:
        (tmp_path / "misconceptions.yml").write_text(text)
        return read_misconceptions(tmp_path / "misconceptions.yml")

    return reader


def test_misconceptions_clauses_and_mutants_are_read(read):
    assert read(TEXT) == Said(
        (Misconception("halves", "half for double", "You divide by two. The function multiplies.", "Arithmetic"),),
        {"c2": "it is a permission"},
        (EquivalentMutant("return x + x", "return 2 * x", "both are"),),
    )


HINTS = """\
    read: Arithmetic
    hints:
      - Add it to itself.
      - Which operator does that?
"""


def test_a_misconception_may_have_two_hints_of_its_own(read):
    (one,) = read(TEXT.replace("    read: Arithmetic\n", HINTS)).misconceptions
    assert one.hints == ("Add it to itself.", "Which operator does that?")


@pytest.mark.parametrize(
    "hints",
    [
        "Add it to itself.",
        "[Add it to itself.]",
        "[One., Two., Three.]",
        "[One., 2]",
        "[One., '']",
        "",
        "{a: One., b: Two.}",
    ],
    ids=["a sentence", "one", "three", "a number", "an empty one", "nothing", "no list"],
)
def test_hints_that_are_not_two_sentences_are_refused(read, hints):
    with pytest.raises(Unreadable) as why:
        read(TEXT.replace("read: Arithmetic", f"read: Arithmetic\n    hints: {hints}"))
    assert "misconceptions.yml: the hints of halves are to be a list of two sentences" in str(why.value)


def test_without_a_file_and_with_an_empty_one_nothing_is_said(read, tmp_path):
    assert read("") == read("misconceptions: {}\n") == read_misconceptions(tmp_path / "none.yml") == Said()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("unbreakable:", "  halves:\nunbreakable:", "misconceptions.yml:8: halves stands twice"),
        ("read: Arithmetic", "reads: Arithmetic", "a misconception got an unexpected keyword argument 'reads'"),
        ("    read: Arithmetic\n", "", "a misconception missing 1 required positional argument: 'read'"),
        ("unbreakable:", "unbroken:", "misconceptions.yml: it has no unbroken"),
        ("halves:", "halves", "misconceptions.yml:3: "),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(read, old, new, says):
    assert old in TEXT
    with pytest.raises(Unreadable) as why:
        read(TEXT.replace(old, new, 1))
    assert says in str(why.value)
