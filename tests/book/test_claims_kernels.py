"""Tests that settle the claims of the chapter "Kernels from Python", one per claim."""

import pytest
import torch
from torch import nn

import gpulab
import gpulab.cuda
from gpulab.kernels import cuda, fusion, tl, triton


@pytest.fixture
def card():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


@cuda.jit
def double_by_threads(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2.0 * x[i]


@triton.jit
def double_by_tiles(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2.0 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


def test_a_kernel_is_written_in_python_too_by_thread_or_by_tile(card):
    x = torch.randn(100, device="cuda")
    by_threads, by_tiles = torch.empty_like(x), torch.empty_like(x)
    with gpulab.observe() as seen:
        double_by_threads[4, 32](x, by_threads)
        double_by_tiles[(4,)](x, by_tiles, 100, BLOCK=32)
    assert [launch.language for launch in seen.launches] == ["numba", "triton"]
    assert torch.equal(by_threads, 2 * x) and torch.equal(by_tiles, 2 * x)


def test_the_compiler_writes_the_kernel_of_a_chain_of_operations():
    watched = fusion.watch(lambda x: 2.0 * x + 1.0)
    watched(torch.randn(100))
    (kernel,) = watched.report.calls[0].kernels
    assert kernel.kind == "triton" and kernel.source.startswith("@triton.jit")


def backward_kernels(model, x):
    result = model(x).sum()
    with gpulab.observe() as seen:
        result.backward()
    return {kernel.name for kernel in seen.kernels}


def test_the_backward_pass_of_linear_layers_is_products_and_sums_and_no_operation_of_cudnn(card):
    linear = backward_kernels(nn.Linear(8, 4).cuda(), torch.randn(3, 8, device="cuda"))
    assert linear == {"aten.ones_like", "aten.mm", "aten.sum"}
    block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).cuda()
    names = backward_kernels(block, torch.randn(2, 3, 16, device="cuda"))
    assert {"aten.mm", "aten.bmm"} <= names and not any("conv" in name or "cudnn" in name for name in names)
    conv = backward_kernels(nn.Conv2d(3, 4, 2).cuda(), torch.randn(1, 3, 4, 4, device="cuda"))
    assert "aten.convolution_backward" in conv


def test_a_patch_embedding_is_a_convolution_whose_windows_do_not_overlap():
    embed = nn.Conv2d(3, 5, kernel_size=4, stride=4).double()
    images = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    with gpulab.observe() as seen:
        tokens = embed(images).flatten(2).transpose(1, 2)
    assert any(op.op.startswith(("aten.convolution", "aten.mkldnn_convolution")) for op in seen.ops)
    patches = nn.functional.unfold(images, kernel_size=4, stride=4).transpose(1, 2)
    expected = patches @ embed.weight.flatten(1).T + embed.bias
    assert torch.allclose(tokens, expected)


def test_the_compiler_writes_triton_and_leaves_products_to_the_library():
    watched = fusion.watch(lambda x, w: torch.relu(x @ w + 1.0) * 2.0)
    watched(torch.randn(8, 16), torch.randn(16, 4))
    kinds = {kernel.kind: kernel for kernel in watched.report.calls[0].kernels}
    assert set(kinds) == {"library", "triton"}
    assert "aten.mm" in kinds["library"].ops and "tl.store" in kinds["triton"].source


def test_a_value_that_decides_breaks_the_graph_in_two():
    def decided(x):
        y = x.sin()
        return y + 1 if y.sum() > 0 else y - 1

    watched = fusion.watch(decided)
    for x in (torch.ones(4), -torch.ones(4)):
        assert torch.allclose(watched(x), decided(x))
    assert watched.report.graph_breaks and watched.report.graphs > 1
    assert "y.sum() > 0" in watched.report.graph_breaks[0].line.text


@pytest.mark.parametrize("function", [lambda x: x * x.abs().amax().item(), lambda x: x[x > 0] * 2.0])
def test_fullgraph_takes_in_a_value_read_that_breaks_a_graph_otherwise(function):
    graphs = {False: 0, True: 0}
    for whole in graphs:

        def run(graph, inputs):
            graphs[whole] += 1
            return graph.forward

        torch._dynamo.reset()
        torch.compile(function, backend=run, fullgraph=whole)(torch.randn(6))
    torch._dynamo.reset()
    assert graphs == {False: 2, True: 1}


def test_at_the_limit_new_sizes_run_uncompiled_and_old_ones_keep_their_graphs():
    ran = []

    def backend(graph, inputs):
        def forward(*values):
            ran.append(len(values[0]))
            return graph.forward(*values)

        return forward

    def by_rows(x):
        return torch.stack([row * row.sum() for row in x])

    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=2):
        loose = torch.compile(by_rows, backend=backend, dynamic=False)
        for rows in (3, 5, 7, 3):
            loose(torch.ones(rows, 6))
        assert ran == [3, 5, 3]
        torch._dynamo.reset()
        whole = torch.compile(by_rows, backend=backend, dynamic=False, fullgraph=True)
        for rows in (3, 5):
            whole(torch.ones(rows, 6))
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            whole(torch.ones(7, 6))
    torch._dynamo.reset()
