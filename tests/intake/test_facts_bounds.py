"""What a cell defines is read in time and memory in proportion to its length, whatever is in it."""

import time

import pytest

from autograder.intake import names


@pytest.mark.parametrize("line", [" " * 49_000, "\t" * 49_000, "x, " * 16_000, "x?" * 24_000, "%" * 49_000])
@pytest.mark.parametrize("broken", ["", "def f(:\n"])
def test_a_long_line_takes_no_square_of_its_length(line, broken):
    began = time.process_time()
    names.facts(f"{broken}x\n{line}\n1")
    assert time.process_time() - began < 1


def test_long_cells_are_not_kept():
    before = names._kept.cache_info().currsize
    names.facts("x = 1\n" * names.PARSED_CHARACTERS)
    assert names._kept.cache_info().currsize == before


@pytest.mark.parametrize(
    ("source", "bound"),
    [("a = !ls", {"a"}), ("a, b = %who", {"a", "b"}), ("f = %time g()", {"f"}), ("x1= !ls", {"x1"})],
)
def test_what_a_line_of_ipython_s_binds_is_known(source, bound):
    assert names.facts(source).bound == bound
