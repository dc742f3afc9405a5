"""What an operation costs, in calls of Python functions: no clock, so a busy machine fails no test.

Every notebook, page and hidden test pays it for each operation. ``benchmarks/op_cost.py`` has the times.
"""

import sys

import pytest
import torch

from gpulab import observe


def python_calls(operation) -> int:
    """Calls of Python functions during one run of ``operation`` that has run before."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    for _ in range(3):
        operation()
    sys.setprofile(count)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return calls


@pytest.fixture
def x(virtual):
    return torch.ones(16, 16, device="cuda")


@pytest.mark.parametrize("name, operation, most", [
    ("a view", lambda x: x.t(), 14),
    ("in place", lambda x: x.add_(x), 30),
    ("a new tensor", lambda x: x + x, 50),
    ("a product", lambda x: x @ x, 60),
])  # fmt: skip
def test_an_operation_passes_few_python_functions(x, name, operation, most):
    assert python_calls(lambda: operation(x)) <= most


def test_a_freed_block_costs_as_much_after_a_thousand_operations_as_at_first(x):
    first = python_calls(lambda: x + x)
    for _ in range(1000):
        x + x
    assert python_calls(lambda: x + x) <= first


def test_an_observation_adds_few_more(x):
    def observed():
        with observe():
            for _ in range(100):
                x + x

    plain = python_calls(lambda: [x + x for _ in range(100)])
    assert python_calls(observed) - plain <= 100 * 70


def test_a_second_stream_adds_few_more(x):
    torch.cuda.Stream()
    assert python_calls(lambda: x + x) <= 115
