"""The analysis of a kernel's reads and writes follows its arguments through every alias."""

import pytest

from gpulab.kernels import CompileError, cuda
from gpulab.kernels.simt.source import Source
from gpulab.kernels.simt.usage import usage
from tests.kernels.simt.launching import floats, launched, zeros


@cuda.jit(device=True)
def same(array):
    return array


@cuda.jit(device=True)
def the_second(one, two):
    chosen = one if one.size > 1000 else two
    return chosen


@cuda.jit(device=True)
def deep(array, value):
    same(array)[cuda.grid(1) // 2] = value


@cuda.jit
def through_a_result(out, x):
    y = same(out)
    y[cuda.grid(1) // 2] = x[cuda.grid(1)]


@cuda.jit
def through_a_result_at_once(out, x):
    same(out)[cuda.grid(1) // 2] = x[cuda.grid(1)]


@cuda.jit
def through_a_choice(out, x):
    y = the_second(x, out)
    y[cuda.grid(1) // 2] = 1


@cuda.jit
def through_two_functions(out, x):
    deep(out, x[cuda.grid(1)])


@cuda.jit
def through_a_tuple(out, x):
    both = (x, out)
    first, second = both
    second[cuda.grid(1) // 2] = first[cuda.grid(1)]


@pytest.mark.parametrize(
    "kernel",
    [through_a_result, through_a_result_at_once, through_a_choice, through_two_functions, through_a_tuple],
    ids=lambda kernel: kernel.__name__,
)
def test_a_race_is_found_under_whatever_name_the_array_is_written(kernel):
    (race,) = launched(kernel, 1, 32, zeros(32), floats(32)).races
    assert (race.array, race.kind) == ("out", "write after write")


def test_what_is_only_read_is_not_taken_for_written():
    found = usage(Source(through_two_functions.py_func))
    assert found == {"out": {"write"}, "x": {"read"}}
    assert usage(Source(through_a_result.py_func)) == {"out": {"write"}, "x": {"read"}}


@cuda.jit(device=True)
def calls_the_other(x):
    return calls_this(x)


@cuda.jit(device=True)
def calls_this(x):
    return calls_the_other(x)


@cuda.jit
def in_a_circle(x):
    calls_this(x)


def test_functions_that_call_each_other_are_refused():
    with pytest.raises(CompileError, match="calls itself"):
        in_a_circle[1, 32](zeros(32))
