"""Host-device copies: synchronisation, where a dtype is converted, and the cost of pinned memory."""

import pytest
import torch

import gpulab
from gpulab.cards import constants

MIB = 1 << 20
LARGE = 16 * MIB

virtual = pytest.mark.usefixtures("virtual")


def observed(program):
    torch.cuda.synchronize()
    with gpulab.observe() as seen:
        program()
    return seen


def waited(seen):
    return sum(wait.us for wait in seen.waits)


@virtual
def test_a_non_blocking_pageable_copy_holds_the_host_until_it_is_staged():
    host = torch.ones(LARGE, dtype=torch.uint8)
    seen = observed(lambda: host.to("cuda", non_blocking=True))
    (copy,) = seen.copies
    assert waited(seen) == pytest.approx(LARGE / constants.PAGEABLE_BYTES_PER_S * 1e6, rel=0.01)
    assert seen.waits[-1].end_us < copy.end_us


@virtual
def test_a_blocking_pageable_copy_holds_the_host_until_it_is_there():
    host = torch.ones(LARGE, dtype=torch.uint8)
    seen = observed(lambda: host.to("cuda"))
    assert seen.waits[-1].end_us >= seen.copies[0].end_us


@pytest.mark.parametrize("nbytes", [32, 64 * 1024])
def test_a_small_pageable_copy_returns_at_once_even_behind_other_work(cuda, nbytes):
    host = torch.ones(nbytes, dtype=torch.uint8)
    host.to("cuda")
    torch.cuda._sleep(20_000_000)
    there = host.to("cuda", non_blocking=True)
    assert not torch.cuda.current_stream().query()
    assert there.sum() == nbytes


@virtual
def test_staging_does_not_wait_for_the_queue_but_a_blocking_copy_does():
    host, times = torch.ones(MIB, dtype=torch.uint8), []
    for non_blocking in (True, False):
        torch.cuda.synchronize()
        torch.cuda._sleep(20_000_000)
        with gpulab.observe() as seen:
            host.to("cuda", non_blocking=non_blocking)
        times.append(waited(seen))
    assert times[0] < 200 < 5000 < times[1]


@virtual
def test_a_pageable_copy_is_never_faster_than_the_link_nor_than_the_staging():
    for source in (torch.ones(LARGE, dtype=torch.uint8), torch.ones(LARGE, dtype=torch.uint8).pin_memory()):
        (copy,) = observed(lambda: source.to("cuda")).copies
        rate = LARGE / (copy.end_us - copy.start_us) * 1e6
        assert rate < (32e9 * 2 if copy.pinned else constants.PAGEABLE_BYTES_PER_S)


def test_nothing_non_blocking_upsets_the_debug_mode(cuda):
    device, pinned = torch.empty(LARGE, device="cuda", dtype=torch.uint8), torch.empty(8).pin_memory()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        device.copy_(torch.ones(LARGE, dtype=torch.uint8), non_blocking=True)
        torch.ones(8).to("cuda", non_blocking=True)
        torch.ones(8).copy_(device[:8], non_blocking=True)
        pinned.to("cuda", non_blocking=True)
        for blocking in (lambda: torch.ones(8).to("cuda"), lambda: pinned.to("cuda"), lambda: device.cpu()):
            with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
                blocking()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@virtual
def test_a_copy_into_pageable_host_memory_is_there_when_the_call_returns():
    device, host = torch.full((MIB,), 7.0, device="cuda"), torch.zeros(MIB)
    torch.cuda._sleep(20_000_000)
    host.copy_(device, non_blocking=True)
    assert host.eq(7.0).all()


CONVERSIONS = {
    "blocking, to the card": (lambda u8, there: u8.to("cuda", torch.float32), 4),
    "non_blocking, to the card": (lambda u8, there: u8.to("cuda", torch.float32, non_blocking=True), 1),
    "blocking, to the host": (lambda u8, there: there.to("cpu", torch.float32), 1),
    "non_blocking, to the host": (lambda u8, there: there.to("cpu", torch.float32, non_blocking=True), 4),
    "copy_ to the card": (lambda u8, there: torch.empty(MIB, device="cuda").copy_(u8), 4),
    "copy_ to the card, non_blocking": (
        lambda u8, there: torch.empty(MIB, device="cuda").copy_(u8, non_blocking=True),
        1,
    ),
    "copy_ to the host": (lambda u8, there: torch.empty(MIB).copy_(there), 1),
    "copy_ to the host, non_blocking": (lambda u8, there: torch.empty(MIB).copy_(there, non_blocking=True), 4),
}


@virtual
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_blocking_copy_converts_on_the_host_and_a_non_blocking_one_on_the_card(name):
    convert, bytes_an_element = CONVERSIONS[name]
    u8 = torch.randint(0, 255, (MIB,), dtype=torch.uint8)
    there = u8.cuda()
    results = []
    seen = observed(lambda: results.append(convert(u8, there)))
    (copy,) = [copy for copy in seen.copies if copy.kind in ("HtoD", "DtoH")]
    assert copy.bytes == MIB * bytes_an_element
    on_card = sum(kernel.bytes_read + kernel.bytes_written for kernel in seen.kernels) > 0
    assert on_card == ("non_blocking" in name)
    torch.cuda.synchronize()
    assert torch.equal(results[0].cpu(), u8.float())


@virtual
def test_what_does_not_lie_densely_travels_by_a_pageable_temporary():
    pinned = torch.ones(2 * MIB, dtype=torch.uint8).pin_memory()
    for source, is_pinned in ((pinned[:MIB], True), (pinned[::2], False)):
        (copy,) = observed(lambda: source.to("cuda", non_blocking=True)).copies
        assert copy.pinned == is_pinned and copy.bytes == MIB


def host_us(program):
    import time

    begin = time.perf_counter()
    program()
    return (time.perf_counter() - begin) * 1e6


@virtual
def test_pinning_costs_the_host_and_a_freed_block_is_pinned_already():
    pageable = torch.ones(LARGE, dtype=torch.uint8)
    first = host_us(lambda: pageable.pin_memory())
    again = host_us(lambda: pageable.pin_memory())
    staging = LARGE / constants.PAGEABLE_BYTES_PER_S * 1e6
    assert first > again + LARGE / constants.HOST_ALLOC_BYTES_PER_S * 1e6
    assert again == pytest.approx(staging, rel=0.05)


@virtual
def test_pin_then_copy_is_slower_than_a_plain_copy():
    pageable = torch.ones(LARGE, dtype=torch.uint8)

    def pin_and_copy():
        pageable.pin_memory().to("cuda", non_blocking=True)
        torch.cuda.synchronize()

    pageable.to("cuda")
    plain = host_us(lambda: pageable.to("cuda"))
    fresh, cached = host_us(pin_and_copy), host_us(pin_and_copy)
    assert fresh > 2 * plain and cached > plain


@virtual
def test_a_pinned_block_is_not_reused_while_a_copy_out_of_it_is_under_way():
    def fresh():
        return host_us(lambda: torch.empty(LARGE, dtype=torch.uint8, pin_memory=True))

    first = torch.empty(LARGE, dtype=torch.uint8, pin_memory=True)
    torch.cuda._sleep(200_000_000)
    first.to("cuda", non_blocking=True)
    del first
    assert fresh() > 1000
    torch.cuda.synchronize()
    assert fresh() < 10


@virtual
def test_emptying_the_host_cache_makes_pinning_dear_again():
    pin = lambda: torch.empty(LARGE, dtype=torch.uint8, pin_memory=True)
    pin()
    assert host_us(pin) < 10
    torch._C._host_emptyCache()
    assert host_us(pin) > 1000


@virtual
def test_a_copy_to_the_host_that_nobody_waits_for_lands_in_pinned_memory():
    late = torch.ones(8, device="cuda").to("cpu", non_blocking=True)
    assert late.is_pinned()


@pytest.mark.parametrize("card", ["H100", "T4"])
def test_a_spinning_kernel_spins_at_the_cards_clock(card):
    with gpulab.cuda.use(f"virtual:{card}", quiet=True) as runtime:
        with gpulab.observe() as seen:
            torch.cuda._sleep(1_000_000)
        (kernel,) = seen.kernels
        assert kernel.end_us - kernel.start_us == pytest.approx(1e12 / runtime.card.clock_hz)
