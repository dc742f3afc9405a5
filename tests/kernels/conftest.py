"""Tests here that take the ``cuda`` fixture run on each runtime at hand, a real GPU among them; what
the others assert is the interpreter's alone (its trace, its refusals, its findings), on CPU tensors.

    python -m pytest tests/kernels
    python -m pytest tests/cuda tests/kernels --runtime real --only-that-runtime --confcutdir tests/cuda
"""

from tests.cuda.conftest import cuda, pytest_generate_tests  # noqa: F401
