"""The same source on the virtual card and, through its compiler, on a GPU: same values, same trace."""

import numpy as np
import pytest
import torch

import gpulab
from evidence.contests import JOBS
from evidence.probes import PROBES
from gpulab.kernels import cuda as numba_cuda
from tests.kernels.simt import corpus
from tests.kernels.tiles import kernels as tiles

CASES = {**corpus.cases(), **corpus.warp_cases()}


def fresh(name):
    return {**corpus.cases(), **corpus.warp_cases()}[name]


def on_the_card(argument):
    return torch.from_numpy(argument.copy()).cuda() if isinstance(argument, np.ndarray) else argument


@pytest.mark.parametrize("name", list(CASES))
def test_a_numba_kernel_computes_on_the_card_what_it_does_on_the_cpu(cuda, name):
    kernel, grid, block, shared, arguments = fresh(name)
    given = [on_the_card(argument) for argument in arguments]
    kernel[grid, block, 0, shared](*given)
    kernel[grid, block, 0, shared](*arguments)
    for here, there in zip(given, arguments):
        if isinstance(there, np.ndarray):
            np.testing.assert_allclose(here.cpu().numpy(), there, rtol=1e-6)


@numba_cuda.jit
def _rounded_to_25_digits(out, x):
    i = numba_cuda.grid(1)
    out[i] = round(x[i], 25)


def test_a_number_scaled_beyond_64_bits_is_rounded_to_the_largest_integer(cuda):
    x = torch.tensor([125.0, -3.0], dtype=torch.float64, device="cuda")
    out = torch.zeros_like(x)
    _rounded_to_25_digits[1, 2](out, x)
    assert out.tolist() == pytest.approx([2**63 / 1e25, -(2**63) / 1e25])


@pytest.mark.parametrize("name", list(PROBES))
def test_a_launch_on_the_card_has_the_trace_of_the_interpreter(cuda, name):
    probe = PROBES[name]
    with gpulab.observe() as seen:
        probe.run(*(tensor.cuda() for tensor in probe.make()))
    (launch,) = seen.launches
    assert launch.lines == probe.predicted().lines and not launch.races and not launch.faults


@pytest.mark.parametrize("name", list(JOBS))
def test_a_reference_kernel_is_right(cuda, name):
    job = JOBS[name]
    contest = job.prepare(*job.small)
    found, exact = contest.kernel().double(), contest.exact()
    assert (found - exact).abs().max() <= job.tolerance * exact.abs().max()


def test_a_triton_kernel_masks_the_end(cuda):
    x, y, out = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda"), torch.zeros(1024, device="cuda")
    tiles.add[(4,)](x, y, out, 1000, BLOCK=256)
    assert torch.equal(out[:1000].cpu(), (x + y).cpu()) and not out[1000:].any().item()


def test_a_triton_product_is_that_of_pytorch(cuda):
    a, b, bias = (torch.randn(*shape, device="cuda").half() for shape in ((70, 50), (50, 40), (40,)))
    out = torch.empty(70, 40, device="cuda")
    tiles.linear_relu[(3, 2)](a, b, bias, out, 70, 40, 50, BM=32, BN=32, BK=16)
    expected = (a.float() @ b.float() + bias.float()).relu()
    assert torch.allclose(out.cpu(), expected.cpu(), atol=1e-2, rtol=1e-2)


def test_a_triton_atomic_sums_all_programs(cuda):
    x, out = torch.ones(1000, device="cuda"), torch.zeros(1, device="cuda")
    tiles.total[(4,)](x, out, 1000, BLOCK=256)
    assert out.item() == 1000
