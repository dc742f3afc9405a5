"""Layer and batch normalisation of half precision: what a card keeps of them, and in which precision it computes."""

import copy

import pytest
import torch
from torch import nn

import gpulab.cuda
import gpulab.evidence

aten = torch.ops.aten
HALVES = (torch.bfloat16, torch.float16)


def image(dtype=torch.bfloat16, *shape):
    return torch.randn(shape or (4, 8, 5, 5), generator=torch.Generator().manual_seed(0)).to(dtype)


def ones(dtype=torch.bfloat16, count=8):
    return torch.ones(count, dtype=dtype, device="cuda")


STATISTICS = {
    "layer_norm of bfloat16: output, mean, rstd": lambda x: aten.native_layer_norm(x, [5], ones(count=5), ones(count=5), 1e-5),
    "group_norm of bfloat16: output, mean, rstd": lambda x: aten.native_group_norm(x, ones(), ones(), 4, 8, 25, 2, 1e-5),
    "batch_norm of bfloat16, float32 weights: output, mean, rstd": lambda x: aten.native_batch_norm(
        x, ones(torch.float32), ones(torch.float32), None, None, True, 0.1, 1e-5
    ),
    "batch_norm of bfloat16, bfloat16 weights: output, mean, rstd": lambda x: aten.native_batch_norm(
        x, ones(), ones(), None, None, True, 0.1, 1e-5
    ),
}  # fmt: skip
NEWER = {
    "without weights": lambda x: aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
    "legit": lambda x: aten._native_batch_norm_legit(x, ones(), ones(), ones(), ones(), True, 0.1, 1e-5),
    "legit, no statistics": lambda x: aten._native_batch_norm_legit.no_stats(x, ones(), ones(), True, 0.1, 1e-5),
    "with update": lambda x: aten._batch_norm_with_update(x, ones(), ones(), ones(), ones(), 0.1, 1e-5)[:3],
}


@pytest.mark.parametrize("which", ["virtual:H100", "ghost:H100"])
@pytest.mark.parametrize("name", STATISTICS)
def test_the_statistics_have_the_dtypes_that_an_h100_keeps(which, name):
    measured = gpulab.evidence.study("formats that a card keeps")[name]["dtypes"]
    with gpulab.cuda.use(which, quiet=True):
        x = torch.empty(4, 8, 5, 5, device="cuda", dtype=torch.bfloat16)
        assert ", ".join(str(part.dtype) for part in STATISTICS[name](x)) == measured


@pytest.mark.parametrize("name", NEWER)
def test_so_have_those_of_the_newer_operators(cuda, name):
    out, mean, rstd = NEWER[name](image().cuda())
    assert (out.dtype, mean.dtype, rstd.dtype) == (torch.bfloat16, torch.float32, torch.float32)


def test_the_statistics_are_those_of_float32(cuda):
    x = image() + 100
    _, mean, rstd = aten.native_layer_norm(x.cuda(), [5], None, None, 1e-5)
    wide = x.float()
    torch.testing.assert_close(mean.cpu(), wide.mean(-1, keepdim=True))
    torch.testing.assert_close(rstd.cpu(), (wide.var(-1, keepdim=True, correction=0) + 1e-5).rsqrt())


MODULES = {
    "LayerNorm": lambda: nn.LayerNorm(5),
    "LayerNorm without bias": lambda: nn.LayerNorm(5, bias=False),
    "BatchNorm2d": lambda: nn.BatchNorm2d(8),
    "BatchNorm2d, evaluated": lambda: nn.BatchNorm2d(8).eval(),
    "GroupNorm": lambda: nn.GroupNorm(2, 8),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(8, affine=True),
}


def step(module, x):
    x = x.clone().requires_grad_()
    out = module(x)
    out.backward(torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).bfloat16().to(x))
    return [out, x.grad, *(p.grad for p in module.parameters())]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MODULES)
def test_values_and_gradients_are_float32s_rounded_once(cuda, name, dtype):
    wide = MODULES[name]()
    there = copy.deepcopy(wide).to("cuda", dtype)
    x = image(dtype)
    for exact, got in zip(step(wide, x.float()), step(there, x.cuda()), strict=True):
        assert got.dtype == dtype
        largest = exact.abs().max().item()
        torch.testing.assert_close(got.detach().cpu().float(), exact.detach(), rtol=0.01, atol=0.01 * largest)


@pytest.mark.parametrize("dtype", (*HALVES, torch.float32))
def test_running_statistics_move_in_their_own_dtype(cuda, dtype):
    module, x = nn.BatchNorm2d(8).to("cuda", dtype), image(torch.bfloat16 if dtype == torch.float32 else dtype)
    module(x.cuda())
    assert module.running_mean.dtype == module.running_var.dtype == dtype
    expected = 0.1 * x.float().mean((0, 2, 3))
    torch.testing.assert_close(module.running_mean.cpu(), expected.to(dtype), rtol=1e-2, atol=1e-3)


def test_what_autograd_keeps_of_a_layer_norm_counts_its_statistics_in_float32(cuda):
    layer, x = nn.LayerNorm(64).to("cuda", torch.bfloat16), torch.randn(4096, 64, device="cuda", dtype=torch.bfloat16)
    before = torch.cuda.memory_allocated()
    out = layer(x)
    assert torch.cuda.memory_allocated() - before == out.nbytes + 2 * 4096 * 4


def test_a_captured_norm_is_replayed_in_float32(cuda):
    graph, x = torch.cuda.CUDAGraph(), image().cuda()
    aten.native_layer_norm(x, [5], None, None, 1e-5)
    with torch.cuda.graph(graph):
        out, mean, _ = aten.native_layer_norm(x, [5], None, None, 1e-5)
    x.add_(100)
    graph.replay()
    torch.testing.assert_close(mean.cpu(), x.cpu().float().mean(-1, keepdim=True))
    assert out.dtype == torch.bfloat16


def test_the_machine_sees_one_kernel_and_no_wider_copy(virtual):
    x = image().cuda()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with gpulab.observe() as seen:
        kept = aten.native_layer_norm(x, [5], None, None, 1e-5)
    assert [kernel.name for kernel in seen.kernels] == ["aten.native_layer_norm"]
    assert torch.cuda.max_memory_allocated() - before == torch.cuda.memory_allocated() - before > 0 and kept
