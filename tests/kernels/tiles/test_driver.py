"""The first lines of Triton's tutorials: on the virtual card they work, without a card they say what to do."""

import pytest
import torch
import triton as tritons_own
from triton.runtime import driver as imported

import gpulab.cuda
from gpulab.cards.constants import KERNEL_FLOOR_US
from gpulab.cards.multiprocessors import multiprocessor
from gpulab.cuda import CARDS, NotModelled
from gpulab.kernels import triton
from tests.kernels.tiles import kernels

BY_BOTH_WAYS = pytest.mark.parametrize(
    "driver", [triton.runtime.driver, imported], ids=["gpulab's triton", "triton itself"]
)
TIMERS = pytest.mark.parametrize(
    "do_bench", [triton.testing.do_bench, tritons_own.testing.do_bench], ids=["gpulab's", "triton's"]
)


@pytest.fixture
def card():
    with gpulab.cuda.use("virtual:A100", quiet=True):
        yield CARDS["A100"]


@BY_BOTH_WAYS
def test_the_device_is_the_virtual_card(driver, card):
    device = driver.active.get_active_torch_device()
    assert torch.ones(4, device=device).is_cuda and device.index == 0
    properties = driver.active.utils.get_device_properties(device.index)
    sm = multiprocessor(card.capability)
    assert properties["multiprocessor_count"] == card.multiprocessors
    assert properties["max_shared_mem"] == sm.max_shared_bytes_per_block
    assert (properties["max_num_regs"], properties["warpSize"]) == (sm.registers, 32)
    target = driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 80, 32)


def test_a_property_that_no_table_has_is_not_invented(card):
    with pytest.raises(NotModelled, match="mem_bus_width"):
        triton.runtime.driver.active.utils.get_device_properties(0)["mem_bus_width"]
    with pytest.raises(RuntimeError, match="one card"):
        triton.runtime.driver.active.utils.get_device_properties(1)


@BY_BOTH_WAYS
def test_without_a_card_the_sentence_says_how_to_get_one(driver):
    with gpulab.cuda.use("off", quiet=True), pytest.raises(RuntimeError, match=r"gpulab.cuda.use\('virtual:H100'\)"):
        driver.active.get_active_torch_device()


@TIMERS
def test_a_kernel_takes_what_its_bytes_take(do_bench, card):
    n = 1 << 18
    x = torch.ones(n, device="cuda")
    out = torch.empty_like(x)
    ms = do_bench(lambda: kernels.copy[(16,)](x, out, n, BLOCK=16384))
    assert ms == pytest.approx(KERNEL_FLOOR_US / 1e3 + 8 * n / card.sustained_bytes_per_s * 1e3, rel=1e-3)


def test_quantiles_and_modes_come_as_triton_gives_them(card):
    x = torch.ones(64, device="cuda", requires_grad=True)

    def work():
        x.sum().backward()

    low, middle, high = triton.testing.do_bench(work, quantiles=[0.2, 0.5, 0.8], grad_to_none=[x])
    assert 0 < low <= middle <= high
    assert (
        triton.testing.do_bench(work, return_mode="median") > 0
        and len(triton.testing.do_bench(work, return_mode="all")) > 1
    )


@TIMERS
def test_nothing_is_timed_without_a_card(do_bench):
    with gpulab.cuda.use("off", quiet=True), pytest.raises(RuntimeError, match="do_bench times kernels on a card"):
        do_bench(lambda: None)


def test_what_the_compiler_alone_knows_is_not_invented(card):
    x = torch.ones(64, device="cuda")
    compiled = kernels.copy.warmup(x, x, 64, BLOCK=64, grid=(1,))
    for name in ("n_regs", "metadata", "_init_handles"):
        with pytest.raises(NotModelled, match=name):
            getattr(compiled, name)
