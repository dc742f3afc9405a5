"""Streams, events and the host's waits."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("cuda")


def busy(stream=None):
    """Work that takes the device milliseconds and the host none."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)


def test_work_runs_behind_the_host():
    busy()
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert torch.cuda.current_stream().query()


def test_an_idle_stream_is_done():
    assert torch.cuda.Stream().query()


def test_the_current_stream_is_the_default_one():
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.cuda.default_stream().cuda_stream == 0


def test_a_stream_is_current_inside_its_block_only():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_the_current_stream_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError):
        with torch.cuda.stream(torch.cuda.Stream()):
            1 / 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_streams_nest():
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(one):
        with torch.cuda.stream(two):
            assert torch.cuda.current_stream() == two
        assert torch.cuda.current_stream() == one


def test_no_stream_is_no_change():
    with torch.cuda.stream(None):
        assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_set_stream_stays():
    side = torch.cuda.Stream()
    torch.cuda.set_stream(side)
    assert torch.cuda.current_stream() == side
    torch.cuda.set_stream(torch.cuda.default_stream())


def test_two_streams_differ_and_one_equals_itself():
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    assert one == one and one != two and len({one, two, one}) == 2


def test_a_stream_names_itself():
    assert repr(torch.cuda.Stream()).startswith("<torch.cuda.Stream device=cuda:0 cuda_stream=0x")


def test_a_priority_below_zero_is_kept():
    assert torch.cuda.Stream(priority=-1).priority == -1


def test_a_priority_above_the_lowest_is_the_lowest():
    assert torch.cuda.Stream(priority=1).priority == 0


def test_waiting_for_one_stream_leaves_the_other_running():
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    busy(two)
    one.synchronize()
    assert not two.query()
    two.synchronize()
    assert two.query()


def test_synchronize_waits_for_every_stream():
    side = torch.cuda.Stream()
    busy(side)
    torch.cuda.synchronize()
    assert side.query()


def test_wait_stream_returns_at_once_and_orders_what_follows():
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    busy(one)
    two.wait_stream(one)
    assert not one.query() and not two.query()
    two.synchronize()
    assert one.query()


def test_wait_event_orders_after_the_event_only():
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    event = one.record_event()
    busy(one)
    two.wait_event(event)
    two.synchronize()
    assert not one.query()


def test_an_event_that_was_never_recorded_is_done():
    event = torch.cuda.Event()
    assert event.query()
    event.synchronize()
    event.wait()


def test_an_event_is_passed_when_the_work_before_it_is():
    busy()
    event = torch.cuda.current_stream().record_event()
    assert not event.query()
    event.synchronize()
    assert event.query()


def test_an_event_can_be_recorded_again():
    event = torch.cuda.Event()
    event.record()
    torch.cuda.synchronize()
    assert event.query()
    busy()
    event.record()
    assert not event.query()


def timed():
    return torch.cuda.Event(enable_timing=True)


def test_elapsed_time_is_in_milliseconds_of_the_device():
    begin, end = timed(), timed()
    begin.record()
    busy()
    end.record()
    end.synchronize()
    assert 1 < begin.elapsed_time(end) < 1000


def test_elapsed_time_backwards_is_negative():
    begin, end = timed(), timed()
    begin.record()
    busy()
    end.record()
    torch.cuda.synchronize()
    assert end.elapsed_time(begin) < 0


def test_elapsed_time_needs_timing_enabled():
    begin, end = torch.cuda.Event(), torch.cuda.Event()
    begin.record()
    end.record()
    torch.cuda.synchronize()
    with pytest.raises((ValueError, RuntimeError), match="enable_timing=True"):
        begin.elapsed_time(end)


def test_elapsed_time_needs_both_recorded():
    begin, end = timed(), timed()
    begin.record()
    with pytest.raises((ValueError, RuntimeError), match="Both events must be recorded"):
        begin.elapsed_time(end)


def test_elapsed_time_needs_both_passed():
    begin, end = timed(), timed()
    begin.record()
    busy()
    end.record()
    with pytest.raises(RuntimeError, match="Both events must be completed"):
        begin.elapsed_time(end)


ASKS = {"query": lambda begin, end: end.query(), "elapsed_time": lambda begin, end: end_or_none(begin, end)}


def end_or_none(begin, end):
    try:
        return begin.elapsed_time(end)
    except RuntimeError:
        return None


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_who_asks_often_enough_waits_until_the_device_is_done(ask):
    begin, end, after = timed(), timed(), timed()
    begin.record()
    busy()
    end.record()
    while not ask(begin, end):
        pass
    after.record()
    assert end.elapsed_time(after) * 1e3 < 500 and torch.cuda.current_stream().query()


WAITS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x[0]),
    "bool": lambda x: bool(x[0] > 0),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "equal": lambda x: torch.equal(x, torch.ones_like(x)),
    "allclose": lambda x: torch.allclose(x, x + 1),
    "print": lambda x: repr(x),
    "format": lambda x: f"{x[0]:.1f}",
    "if": lambda x: 1 if x[0] else 0,
    "upload": lambda x: torch.ones(8).cuda(),
    "from data": lambda x: torch.tensor([1.0], device="cuda"),
    "copy_ from pageable memory": lambda x: x.copy_(torch.ones(64)),
}


def test_equality_with_the_same_memory_asks_nobody():
    x = torch.ones(64, device="cuda")
    busy()
    assert torch.equal(x, x) and not torch.cuda.current_stream().query()


@pytest.mark.parametrize("name", WAITS)
def test_the_host_waits(name):
    x = torch.ones(64, device="cuda")
    busy()
    WAITS[name](x)
    assert torch.cuda.current_stream().query()


RUNS_ON = {
    "add": lambda x: x + 1,
    "matmul": lambda x: x.view(8, 8) @ x.view(8, 8),
    "sum": lambda x: x.sum(),
    "argmax": lambda x: x.argmax(),
    "where": lambda x: torch.where(x > 0, x, -x),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "index": lambda x: x[torch.zeros(3, dtype=torch.long, device="cuda")],
    "to another dtype": lambda x: x.half(),
    "softmax": lambda x: x.softmax(0),
    "topk": lambda x: x.topk(3),
    "sort": lambda x: x.sort(),
    "zeros": lambda x: torch.zeros(8, device="cuda"),
    "randn": lambda x: torch.randn(8, device="cuda"),
    "shape": lambda x: x.shape[0],
    "view": lambda x: x.view(2, 32),
    "clone": lambda x: x.clone(),
    "cumsum": lambda x: x.cumsum(0),
    "pinned, non_blocking, to the card": lambda x: torch.ones(8).pin_memory().to("cuda", non_blocking=True),
    "non_blocking, to the host": lambda x: x.to("cpu", non_blocking=True),
}


@pytest.mark.parametrize("name", RUNS_ON)
def test_the_host_runs_on(name):
    x = torch.ones(64, device="cuda")
    RUNS_ON[name](x)
    torch.cuda.synchronize()
    busy()
    RUNS_ON[name](x)
    assert not torch.cuda.current_stream().query()


def test_bytes_to_the_host_arrive_with_the_wait():
    x = torch.full((64,), 7.0, device="cuda")
    torch.cuda.synchronize()
    busy()
    late = x.to("cpu", non_blocking=True)
    assert late.is_pinned() and late.sum() != 7 * 64
    torch.cuda.synchronize()
    assert late.sum() == 7 * 64


def test_the_debug_mode_refuses_hidden_waits():
    x = torch.ones(2, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            x.sum().item()
        torch.cuda.synchronize()
        assert torch.cuda.get_sync_debug_mode() == 2
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_debug_mode_warns_of_hidden_waits():
    x = torch.ones(2, device="cuda")
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            x.nonzero()
    finally:
        torch.cuda.set_sync_debug_mode(0)


def test_nvtx_ranges_nest():
    no_tool = -2  # NVTX_NO_PUSH_POP_TRACKING: a card's answer where no profiler listens
    depths = [torch.cuda.nvtx.range_push(name) for name in ("outer", "inner")]
    assert depths in ([0, 1], [no_tool, no_tool])
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("block"):
        torch.cuda.nvtx.mark("here")


def test_the_device_is_known_by_its_properties():
    properties = torch.cuda.get_device_properties(0)
    assert properties.name == torch.cuda.get_device_name() and properties.multi_processor_count > 0
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor)
    assert torch.cuda.current_device() == 0 and torch.cuda.is_available() and torch.cuda.is_initialized()


def test_bf16_is_supported_from_ampere_on():
    supported = torch.cuda.get_device_capability() >= (8, 0)
    assert torch.cuda.is_bf16_supported(including_emulation=False) == supported


def test_the_pool_hands_out_32_streams_of_a_priority_and_then_the_first_again():
    streams = [torch.cuda.Stream() for _ in range(33)]
    assert len({stream.stream_id for stream in streams[:32]}) == 32
    assert streams[32] == streams[0] and streams[32].stream_id == streams[0].stream_id


def test_each_priority_has_a_pool_of_its_own():
    usual = {torch.cuda.Stream().stream_id for _ in range(32)}
    assert torch.cuda.Stream(priority=-1).stream_id not in usual


def test_the_priorities_are_those_that_pytorch_takes():
    lowest, highest = torch.cuda.Stream.priority_range()
    assert lowest == 0 and -3 <= highest < 0
    assert torch.cuda.Stream(priority=-100).priority == highest


def test_a_stream_is_a_context_manager():
    side = torch.cuda.Stream()
    with side:
        assert torch.cuda.current_stream() == side
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_each_thread_has_a_current_stream_of_its_own():
    import threading

    side, inside, done, seen = torch.cuda.Stream(), threading.Event(), threading.Event(), []

    def work():
        with torch.cuda.stream(side):
            seen.append(torch.cuda.current_stream())
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    here = torch.cuda.current_stream()
    done.set()
    thread.join()
    assert here == torch.cuda.default_stream() and seen == [side]


@pytest.mark.parametrize(
    "ask",
    [
        lambda card: torch.cuda.synchronize(card),
        lambda card: torch.cuda.mem_get_info(card),
        lambda card: torch.cuda.memory_allocated(card),
        lambda card: torch.cuda.current_stream(card),
        lambda card: torch.cuda.Stream(device=card),
        lambda card: torch.cuda.device(card).__enter__(),
    ],
)
def test_a_card_that_is_not_there_is_asked_for_nothing(ask):
    with pytest.raises(RuntimeError, match="invalid device ordinal|Invalid device argument|out of index range"):
        ask(torch.cuda.device_count())


def test_an_unknown_debug_mode_is_refused():
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        torch.cuda.set_sync_debug_mode(5)


def test_the_profiler_of_the_vendor_may_be_told_to_start_and_stop():
    with torch.cuda.profiler.profile():
        torch.ones(1, device="cuda")
    assert torch.cuda.cudart().cudaProfilerStart() == torch.cuda.cudart().cudaError.success
    torch.cuda.cudart().cudaProfilerStop()
