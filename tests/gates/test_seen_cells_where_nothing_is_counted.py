"""A GPU's profiler gives kernels CUDA's names and counts neither FLOPs nor bytes: the visible cells say so, and go on."""

import pytest

import gpulab.cuda
from autograder.authoring.authored import run_notebook
from gpulab.observe.device import DeviceLog
from tests.gates.test_seen_cells_take_no_names import NOTEBOOKS
from tests.sampling import sampled


@pytest.fixture
def as_a_gpus_profiler(monkeypatch):
    """The virtual card's kernels, with what CUPTI knows of them."""
    known = DeviceLog.kernel

    def kernel(log, name, stream, start_us, end_us, flops, bytes_read, bytes_written, line):
        known(log, f"void at::native::{name}(long)", stream, start_us, end_us, None, None, None, line)

    monkeypatch.setattr(DeviceLog, "kernel", kernel)
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


@pytest.mark.parametrize(
    "chapter", sampled(["kernels", "engines", "inference", "streams"], now=["engines", "inference", "streams"])
)
def test_visible_cells_need_no_counts(chapter, as_a_gpus_profiler):
    assert run_notebook(NOTEBOOKS[chapter], {})[1] == {}
