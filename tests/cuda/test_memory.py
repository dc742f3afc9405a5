"""The caching allocator: rounding, splitting, merging, reserving, running out."""

import gc

import pytest
import torch

pytestmark = pytest.mark.usefixtures("cuda")
MIB = 1 << 20


def new(nbytes):
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")


@pytest.fixture(autouse=True)
def clean(cuda):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()


def allocated_by(make):
    before = torch.cuda.memory_allocated()
    kept = make()
    return torch.cuda.memory_allocated() - before, kept


@pytest.mark.parametrize("asked, taken", [(1, 512), (512, 512), (513, 1024), (1000, 1024), (4096, 4096)])
def test_an_allocation_is_rounded_up_to_512_bytes(asked, taken):
    assert allocated_by(lambda: new(asked))[0] == taken


def test_an_empty_tensor_takes_no_memory():
    assert allocated_by(lambda: new(0))[0] == 0


@pytest.mark.parametrize(
    "asked, reserved",
    [(1, 2), (MIB, 2), (MIB + 1, 20), (9 * MIB, 20), (10 * MIB, 10), (11 * MIB, 12), (33 * MIB + 1, 34)],
)
def test_a_segment_is_2_or_20_mib_or_a_multiple_of_2(asked, reserved):
    before = torch.cuda.memory_reserved()
    kept = new(asked)
    assert torch.cuda.memory_reserved() - before == reserved * MIB
    del kept


def test_freed_memory_stays_reserved():
    kept = new(16 * MIB)
    reserved = torch.cuda.memory_reserved()
    del kept
    assert torch.cuda.memory_reserved() == reserved and torch.cuda.memory_allocated() == 0


def test_empty_cache_gives_unused_segments_back():
    kept = new(16 * MIB)
    del kept
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


def test_empty_cache_keeps_a_segment_that_is_partly_used():
    first, second = new(4 * MIB), new(4 * MIB)
    del second
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 20 * MIB and first.numel()


def test_a_view_takes_no_memory():
    kept = new(4 * MIB)
    assert allocated_by(lambda: kept.view(2, -1)[1:].t())[0] == 0


def test_in_place_takes_no_memory():
    kept = torch.zeros(MIB, device="cuda")
    assert allocated_by(lambda: kept.add_(1))[0] == 0


def test_a_view_keeps_the_whole_storage():
    kept = new(4 * MIB)[:1]
    gc.collect()
    assert torch.cuda.memory_allocated() == 4 * MIB and kept.numel() == 1


def test_small_allocations_share_a_segment():
    kept = [new(MIB // 4) for _ in range(8)]
    assert torch.cuda.memory_reserved() == 2 * MIB and len(kept) == 8


def test_a_freed_block_is_reused():
    kept = new(4 * MIB)
    del kept
    reserved = torch.cuda.memory_reserved()
    _kept = new(4 * MIB)
    assert torch.cuda.memory_reserved() == reserved


def test_neighbours_that_are_free_merge():
    first, second, last = new(6 * MIB), new(6 * MIB), new(6 * MIB)
    del first, second
    reserved = torch.cuda.memory_reserved()
    both = new(12 * MIB)
    assert torch.cuda.memory_reserved() == reserved and both.numel() and last.numel()


def test_free_bytes_that_are_not_together_do_not_help():
    kept = [new(5 * MIB) for _ in range(4)]
    del kept[2], kept[0]
    reserved = torch.cuda.memory_reserved()
    kept.append(new(9 * MIB))
    assert torch.cuda.memory_reserved() == reserved + 20 * MIB


def test_memory_freed_on_one_stream_is_not_handed_to_another():
    kept = new(16 * MIB)
    del kept
    reserved = torch.cuda.memory_reserved()
    with torch.cuda.stream(torch.cuda.Stream()):
        _kept = new(16 * MIB)
    assert torch.cuda.memory_reserved() == reserved + 16 * MIB


def test_the_peak_is_kept_until_reset():
    kept = new(8 * MIB)
    del kept
    assert torch.cuda.max_memory_allocated() == 8 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0


def test_a_temporary_counts_towards_the_peak():
    x = torch.ones(MIB, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    y = (x + 1) * 2
    assert torch.cuda.max_memory_allocated() == 3 * 4 * MIB and y.numel()


def test_memory_stats_has_pytorchs_names():
    kept = new(3 * MIB)
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == 3 * MIB == stats["allocated_bytes.large_pool.current"]
    assert stats["segment.all.current"] == 1 and stats["allocation.all.allocated"] == 1
    assert stats["inactive_split_bytes.all.current"] == 17 * MIB and stats["num_ooms"] == 0
    del kept


def test_requested_bytes_are_not_rounded():
    kept = new(1000)
    stats = torch.cuda.memory_stats()
    assert stats["requested_bytes.all.current"] == 1000 and stats["allocated_bytes.all.current"] == 1024
    del kept


def test_memory_summary_is_a_table():
    assert "PyTorch CUDA memory summary" in torch.cuda.memory_summary()


def test_mem_get_info_is_free_and_total():
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == torch.cuda.get_device_properties(0).total_memory


def test_a_fraction_of_the_card_is_a_wall():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(256 * MIB / total)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError) as ran_out:
            new(512 * MIB)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    text = str(ran_out.value)
    assert text.startswith("CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of ")
    assert "256.00 MiB allowed; Of the allocated memory " in text
    assert " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large" in text


def test_more_than_the_card_has_runs_out():
    total = torch.cuda.get_device_properties(0).total_memory
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        new(2 * total)


def test_running_out_counts_and_leaves_nothing_behind():
    total = torch.cuda.get_device_properties(0).total_memory
    with pytest.raises(torch.OutOfMemoryError):
        torch.zeros(total, device="cuda")
    assert torch.cuda.memory_stats()["num_ooms"] == 1 and torch.cuda.memory_allocated() == 0


def test_cached_memory_goes_back_before_it_runs_out():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(256 * MIB / total)
    try:
        kept = new(200 * MIB)
        del kept
        _kept = new(220 * MIB)
        assert torch.cuda.memory_reserved() == 220 * MIB
        assert torch.cuda.memory_stats()["num_alloc_retries"] == 1
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_fragmented_memory_runs_out_with_bytes_to_spare():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(80 * MIB / total)
    try:
        kept = [new(5 * MIB) for _ in range(16)]
        del kept[::2]
        free = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        assert free == 40 * MIB
        with pytest.raises(torch.OutOfMemoryError):
            new(12 * MIB)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_module_takes_its_parameters_and_buffers():
    took, layer = allocated_by(lambda: torch.nn.BatchNorm1d(1024).cuda())
    # weight, bias, running mean and variance of 4096 bytes, and one counter.
    assert took == 4 * 4096 + 512


def test_adam_keeps_two_states_for_each_parameter():
    layer = torch.nn.Linear(256, 256, bias=False).cuda()
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 256, device="cuda")).sum().backward()
    before = torch.cuda.memory_allocated()
    optimizer.step()
    assert torch.cuda.memory_allocated() - before == 2 * 256 * 256 * 4


def test_backward_frees_what_forward_saved():
    x = torch.ones(MIB, device="cuda", requires_grad=True)
    loss = x.exp().exp().sum()
    saved = torch.cuda.memory_allocated()
    loss.backward()
    # The two exp results go, the gradient comes.
    assert torch.cuda.memory_allocated() == saved - 4 * MIB


def test_no_grad_saves_nothing():
    x = torch.ones(MIB, device="cuda", requires_grad=True)
    with torch.no_grad():
        took, y = allocated_by(lambda: x.exp().exp())
    assert took == 4 * MIB and not y.requires_grad


def test_a_snapshot_lists_segments_and_blocks():
    before = {s["address"] for s in torch.cuda.memory_snapshot()}  # a library's workspace, say
    kept = new(3 * MIB)
    (segment,) = [s for s in torch.cuda.memory_snapshot() if s["address"] not in before]
    assert segment["total_size"] == 20 * MIB and segment["allocated_size"] == 3 * MIB
    assert [b["state"] for b in segment["blocks"]] == ["active_allocated", "inactive"]
    del kept


def test_the_history_records_what_the_allocator_did():
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history()
    try:
        kept = new(3 * MIB)
        del kept
        torch.cuda.synchronize()
        (trace,) = torch.cuda.memory._snapshot()["device_traces"]
        actions = [entry["action"] for entry in trace]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    assert [a for a in actions if a in ("segment_alloc", "alloc", "free_requested", "free_completed")][-4:] == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
    ]


def test_a_snapshot_can_be_dumped(tmp_path):
    torch.cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    assert (tmp_path / "snapshot.pickle").stat().st_size > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch.zeros(n, device="cuda"),
        lambda n: torch.randn(n, device="cuda"),
        lambda n: torch.empty_strided((2, n // 4), (n // 2, 1), device="cuda"),
    ],
    ids=["zeros", "randn", "with a gap"],
)
def test_a_large_tensor_is_one_allocation(make):
    torch.cuda.memory._record_memory_history()
    before = torch.cuda.memory_stats()
    made = make(6 << 20)
    after = torch.cuda.memory_stats()
    events = [entry["action"] for entry in torch.cuda.memory._snapshot()["device_traces"][0]]
    torch.cuda.memory._record_memory_history(None)
    assert after["allocation.all.allocated"] - before["allocation.all.allocated"] == 1
    taken = after["allocated_bytes.all.allocated"] - before["allocated_bytes.all.allocated"]
    assert 0 <= taken - made.untyped_storage().nbytes() < 512
    assert events.count("alloc") == 1 and "free_completed" not in events


def test_what_is_written_into_memory_that_is_there_takes_none():
    made = torch.empty(6 << 20, device="cuda")
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.zeros(6 << 20, out=made, device="cuda")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_a_large_tensor_that_cannot_be_made_leaves_nothing_behind():
    before = torch.cuda.memory_allocated()
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.rand(6 << 20, dtype=torch.int64, device="cuda")
    assert torch.cuda.memory_allocated() == before


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_result_that_grows_is_counted_whatever_its_name(cuda):
    x = torch.ones(1024, 1024, device="cuda")
    values, places = torch.empty(1, device="cuda"), torch.empty(1, device="cuda", dtype=torch.int64)
    before = torch.cuda.memory_allocated()
    torch.max(x, 0, out=(values, places))
    assert torch.cuda.memory_allocated() - before == (4096 - 512) + (8192 - 512)
