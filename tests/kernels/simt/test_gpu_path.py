"""The way to a real GPU, as far as it can be tested without one."""

import os
import subprocess
import sys

import pytest
import torch

import gpulab
from gpulab.kernels.simt import gpu

pytest.importorskip("numba", reason="numba is a test dependency: pip install -e .[test]")

UNDER_NUMBA = """
import numpy as np
from gpulab.kernels import cuda, float32
from gpulab.kernels.simt import gpu
from tests.kernels.simt import corpus

for name in ("device_functions", "tiled_product", "reduction", "histogram"):
    kernel, grid, block, shared, arguments = corpus.cases()[name]
    theirs = gpu._compiled(kernel)
    assert type(theirs).__module__.startswith("numba"), type(theirs)
    theirs[grid, block](*arguments)
    ours = corpus.cases()[name][4]
    kernel[grid, block](*ours)
    for a, b in zip(arguments, ours):
        np.testing.assert_allclose(a, b, rtol=1e-6)
print("same")
"""


@pytest.mark.audit
def test_numba_runs_our_kernels_with_its_own_names_in_place_of_ours():
    """Numba's simulator stands for its compiler: names, device functions and constants are found."""
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", UNDER_NUMBA], capture_output=True, text=True, env=env, timeout=300)
    assert done.stdout.strip() == "same", done.stderr


def test_copies_for_the_trace_keep_layout_and_sharing():
    x = torch.arange(64.0)
    whole, part, turned, number = gpu.twins([x, x[3:40:2], x.view(8, 8).T, 5])
    assert torch.equal(part, x[3:40:2]) and (part.storage_offset(), part.stride()) == (3, (2,))
    assert turned.stride() == (1, 8) and number == 5
    whole[3] = -1
    assert part[0] == -1 and x[3] == 3


def test_copies_for_the_trace_are_no_operations_of_the_program():
    x = torch.arange(64.0)
    with gpulab.observe() as seen:
        gpu.twins([x, x[3:40:2]])
        x.sum()
    assert seen.computing_ops == ("aten.sum",) and not seen.copies and seen.new_bytes == 4


def test_without_a_gpu_nothing_runs_on_one():
    assert not gpu.runs_here([torch.zeros(3), 5])
