"""On the virtual card a launch is one kernel of the current stream."""

import pytest
import torch

import gpulab.cuda
from gpulab import observe
from gpulab.cards.constants import KERNEL_FLOOR_US
from gpulab.cuda import CARDS, NotModelled
from tests.kernels.tiles import kernels


@pytest.fixture(autouse=True)
def card():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield CARDS["H100"]


def test_a_launch_is_one_kernel_with_its_bytes_and_flops(card):
    n = 1 << 16
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    with observe() as seen:
        kernels.add[(64,)](x, y, out, n, BLOCK=1024)
    (kernel,) = seen.kernels
    assert (kernel.name, kernel.bytes_read, kernel.bytes_written, kernel.flops) == ("add", 8 * n, 4 * n, n)
    assert kernel.end_us - kernel.start_us > 12 * n / card.bytes_per_s * 1e6
    assert kernel.line.text.startswith("kernels.add")
    assert torch.equal(out.cpu(), (x + y).cpu())


def test_it_counts_where_nobody_observes_too():
    x = torch.ones(8, device="cuda")
    torch.cuda.synchronize()
    kernels.copy[(1,)](x, torch.empty_like(x), 8, BLOCK=8)
    assert not torch.cuda.current_stream().query()


def test_a_host_tensor_is_refused_as_triton_does():
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed from Triton \(cpu tensor\?\)"):
        kernels.copy[(1,)](torch.ones(8, device="cuda"), torch.empty(8), 8, BLOCK=8)


def test_launches_on_two_streams_that_nothing_orders_race():
    x = torch.ones(1024, device="cuda")
    a, b = torch.empty_like(x), torch.empty_like(x)
    side = torch.cuda.Stream()
    with observe() as seen:
        kernels.copy[(1,)](x, a, 1024, BLOCK=1024)
        with torch.cuda.stream(side):
            kernels.copy[(1,)](a, b, 1024, BLOCK=1024)
    assert [race.kind for race in seen.races] == ["read after write"]


def test_a_stream_that_waits_does_not_race():
    x = torch.ones(1024, device="cuda")
    a, b = torch.empty_like(x), torch.empty_like(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with observe() as seen:
        kernels.copy[(1,)](x, a, 1024, BLOCK=1024)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            kernels.copy[(1,)](a, b, 1024, BLOCK=1024)
    assert seen.races == ()


def test_a_product_takes_the_time_of_the_matrix_units(card):
    a, b = (torch.randn(128, 128, device="cuda").half() for _ in range(2))
    bias, c = torch.zeros(128, device="cuda").half(), torch.empty(128, 128, device="cuda").half()
    with observe() as seen:
        kernels.linear_relu[(1, 1)](a, b, bias, c, 128, 128, 128, BM=128, BN=128, BK=128)
    (kernel,) = seen.kernels
    moved = (kernel.bytes_read + kernel.bytes_written) / card.sustained_bytes_per_s
    at_matrix_peak, at_fp32_peak = (kernel.flops / card.flops_per_s[fmt] for fmt in ("fp16", "fp32"))
    assert at_matrix_peak < moved < at_fp32_peak
    us = kernel.end_us - kernel.start_us - KERNEL_FLOOR_US
    assert us == pytest.approx(moved * 1e6, rel=1e-6)
    torch.testing.assert_close(c.cpu().float(), (a.cpu().float() @ b.cpu().float()).relu(), atol=2e-2, rtol=2e-2)


def test_own_work_is_known_on_the_card_too():
    x = torch.randn(4, 8, device="cuda")
    with observe() as seen:
        out = torch.empty_like(x)
        kernels.softmax[(4,)](x, out, 8, 8, BLOCK=8)
    assert seen.authors(out).launch_bytes == out.nbytes
    assert seen.computing_ops == ()


def test_a_ghost_card_has_no_values_to_run_on():
    with gpulab.cuda.use("ghost:H100", quiet=True):
        x = torch.empty(8, device="cuda")
        with pytest.raises(NotModelled, match="ghost card"):
            kernels.copy[(1,)](x, x, 8, BLOCK=8)


def test_a_launch_in_a_cuda_graph_is_not_modelled():
    x = torch.ones(8, device="cuda")
    with pytest.raises(NotModelled, match="CUDA graph"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        kernels.copy[(1,)](x, x, 8, BLOCK=8)


def test_a_decoy_fed_from_the_host_shows_its_copies():
    x = torch.randn(4, 8, device="cuda")
    with observe() as seen:
        out = torch.empty_like(x)
        answer = torch.from_numpy(-x.cpu().numpy()).cuda()
        kernels.copy[(1,)](answer, out, 32, BLOCK=32)
    assert seen.authors(out).launch_bytes == out.nbytes
    assert [copy.kind for copy in seen.copies] == ["DtoH", "HtoD"]
