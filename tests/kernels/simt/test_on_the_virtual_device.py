"""A launch on the virtual CUDA device is a kernel on a stream like any other."""

import numpy as np
import pytest
import torch

import gpulab
from gpulab.cuda import NotModelled
from gpulab.kernels import LaunchError, cuda


@cuda.jit
def scale(out, x, factor):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor


@pytest.fixture(autouse=True)
def h100():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


def on_device(n=4096):
    return torch.arange(n, dtype=torch.float32, device="cuda"), torch.zeros(n, device="cuda")


def test_a_launch_is_one_kernel_with_its_counted_bytes_and_flops():
    x, out = on_device()
    with gpulab.observe() as seen:
        scale[16, 256](out, x, 2)
    (kernel,) = seen.kernels
    assert (kernel.name, kernel.stream, kernel.flops) == ("scale", 0, 4096)
    assert kernel.bytes_read == kernel.bytes_written == 4 * 4096
    assert "scale[16, 256](out, x, 2)" in kernel.line.text
    assert seen.ops == () and out.cpu().tolist() == (2 * torch.arange(4096.0)).tolist()


def test_a_launch_takes_the_time_of_its_sectors():
    x, out = on_device(1 << 20)
    with gpulab.observe() as seen:
        scale[4096, 256](out, x, 2)
    (kernel,) = seen.kernels
    moved = kernel.bytes_read + kernel.bytes_written
    from gpulab.cards.constants import KERNEL_FLOOR_US

    expected = KERNEL_FLOOR_US + moved / gpulab.cuda.CARDS["H100"].sustained_bytes_per_s * 1e6
    assert kernel.end_us - kernel.start_us == pytest.approx(expected)


def test_the_host_does_not_wait_for_a_launch():
    x, out = on_device()
    with gpulab.observe() as seen:
        scale[16, 256](out, x, 2)
    assert seen.waits == ()


def test_a_launch_goes_to_the_current_stream_or_to_the_one_it_is_given():
    x, out = on_device()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with gpulab.observe() as seen:
        with torch.cuda.stream(stream):
            scale[16, 256](out, x, 2)
        scale[16, 256, stream](out, x, 2)
    assert {kernel.stream for kernel in seen.kernels} == {stream.stream_id}


def test_two_streams_that_nothing_orders_race_through_a_launch():
    x, out = on_device()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with gpulab.observe() as seen:
        with torch.cuda.stream(stream):
            scale[16, 256](out, x, 2)
        out + 1
    (race,) = seen.races
    assert (race.kind, race.first_op, race.second_op) == ("read after write", "scale", "aten.add")


def test_waiting_for_the_stream_removes_the_race():
    x, out = on_device()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with gpulab.observe() as seen:
        with torch.cuda.stream(stream):
            scale[16, 256](out, x, 2)
        torch.cuda.current_stream().wait_stream(stream)
        out + 1
    assert seen.races == ()


def test_a_tensor_that_a_launch_only_reads_is_not_written():
    x, out = on_device()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with gpulab.observe() as seen:
        with torch.cuda.stream(stream):
            scale[16, 256](out, x, 2)
        x + 1
    assert seen.races == ()


@cuda.jit
def fill(out, value):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = value


def test_a_tensor_that_a_launch_only_writes_is_not_read():
    x, out = on_device()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with gpulab.observe() as seen:
        fill[16, 256](out, 1)
        fill[16, 256, stream](out, 2)
    assert [race.kind for race in seen.races] == ["write after write"]


@pytest.mark.parametrize("x", [torch.zeros(4096), np.zeros(4096, np.float32)], ids=["tensor", "array"])
def test_arrays_of_both_sides_in_one_launch_are_refused(x):
    _, out = on_device()
    with pytest.raises(LaunchError, match="out is on the device and x is not"):
        scale[16, 256](out, x, 2)


def test_a_launch_inside_a_graph_is_not_modelled():
    x, out = on_device()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(NotModelled, match="CUDA graph"), torch.cuda.graph(graph):
        scale[16, 256](out, x, 2)


def test_a_ghost_has_no_elements_to_index():
    with gpulab.cuda.use("ghost:H100", quiet=True):
        x = torch.zeros(64, device="cuda")
        with pytest.raises(gpulab.cuda.GhostHasNoValues):
            scale[1, 64](x, x, 2)


def test_the_authors_of_an_output_are_known():
    x, out = on_device()
    with gpulab.observe() as seen:
        scale[16, 256](out[:2048], x, 2)
        out[2048:] = 1
    authors = seen.authors(out)
    assert (authors.launch_bytes, authors.op_bytes, authors.other_bytes) == (8192, 8192, 0)
