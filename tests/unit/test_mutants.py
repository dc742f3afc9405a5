"""Every slip that a mutant stands for is made once, in one place."""

import ast

import pytest

from autograder.authoring.mutants import mutants


def becomes(source: str) -> list[str]:
    return [mutant.becomes for mutant in mutants(source)]


def test_a_statement_is_deleted():
    assert "pass" in becomes("x.zero_()")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if a:\n    b()", "if (not (a)):"),
        ("while a:\n    b()", "while (not (a)):"),
        ("y = a if b else c", "y = a if (not (b)) else c"),
        ("y = [a for a in b if c]", "y = [a for a in b if (not (c))]"),
        ("y = a and b", "y = a or b"),
    ],
)
def test_a_condition_is_negated(source, expected):
    assert expected in becomes(source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<", "<="),
        ("<=", "<"),
        (">", ">="),
        (">=", ">"),
        ("==", "!="),
        ("!=", "=="),
        ("is", "is not"),
        ("not in", "in"),
    ],
)
def test_a_comparison_is_shifted(before, after):
    assert f"y = a {after} b" in becomes(f"y = a {before} b")


def test_each_comparison_of_a_chain_is_shifted_alone():
    assert {"y = a <= b < c", "y = a < b <= c"} <= set(becomes("y = a < b < c"))


def test_an_integer_is_off_by_one_either_way():
    assert becomes("y = f(3)") == ["pass", "y = f(4)", "y = f(2)"]


def test_a_flag_is_turned():
    assert "y = f(False)" in becomes("y = f(True)")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = f(a, k=1)", "y = f(a)"),
        ("y = f(k=1)", "y = f()"),
        ("y = f(k=1, m=2)", "y = f(m=2)"),
        ("y = f(k=1, m=2)", "y = f(k=1)"),
    ],
)
def test_a_keyword_argument_is_dropped(source, expected):
    assert expected in becomes(source)


def test_docstrings_annotations_and_definitions_stay():
    assert becomes('def f(x: "3") -> 4:\n    """A docstring of 5."""\n    return x') == ["pass"]


def test_every_mutant_is_python_and_another_program():
    source = (
        "def f(x, n=2):\n    é = [i * 2 for i in range(n) if i != 1]\n    return sum(é, start=0) if x >= 3 and n else x"
    )
    made = [mutant.source for mutant in mutants(source)]
    assert len(made) == len(set(made)) > 12
    assert all(ast.dump(ast.parse(text)) != ast.dump(ast.parse(source)) for text in made)


def test_a_mutant_says_the_line_and_what_becomes_of_it():
    (mutant, *_) = mutants("def f(x):\n    return (x +\n            1)")
    assert (mutant.line, mutant.becomes) == ("return (x + 1)", "pass")
