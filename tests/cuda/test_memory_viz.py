"""PyTorch's own readers of snapshots (torch.cuda._memory_viz, behind pytorch.org/memory_viz) take the virtual card's."""

import base64
import json
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch.cuda import _memory_viz as viz

import gpulab.cuda

MIB = 1 << 20
SEGMENT = {
    "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type",
    "segment_pool_id", "is_expandable", "frames", "blocks",
}  # fmt: skip
BLOCK = {"address", "size", "requested_size", "state", "frames"}


def as_it_is(flamegraph: str) -> str:
    return flamegraph


@pytest.fixture(scope="module")
def snapshot() -> dict:
    """A training step, an allocation that fails, a block that waits for another stream and a cache given back."""
    gpulab.cuda.use("virtual", quiet=True)
    torch.cuda.memory._record_memory_history()
    try:
        model = torch.nn.Linear(1000, 1000, device="cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(64, 1000, device="cuda")).sum().backward()
        optimizer.step()
        torch.empty(64 * MIB, device="cuda")
        torch.cuda.empty_cache()
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 42, device="cuda")
        other = torch.cuda.Stream()
        waiting = torch.empty(3 * MIB, device="cuda")
        with torch.cuda.stream(other):
            torch.cuda._sleep(10**9)
        waiting.record_stream(other)
        del waiting
        return torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
        gpulab.cuda.use("off", quiet=True)


def test_segments_blocks_and_entries_have_pytorchs_keys(snapshot):
    assert set(snapshot) == {"segments", "device_traces", "allocator_settings", "external_annotations"}
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    assert all(set(segment) == SEGMENT for segment in snapshot["segments"]) and all(
        set(block) == BLOCK for block in blocks
    )
    assert {block["state"] for block in blocks} == {"active_allocated", "active_pending_free", "inactive"}
    (entries,) = snapshot["device_traces"]
    actions = {"segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "oom"}
    assert {entry["action"] for entry in entries} == actions
    for entry in entries:
        assert ("device_free" if entry["action"] == "oom" else "addr") in entry
        assert ("addr" if entry["action"] == "oom" else "device_free") not in entry


def test_what_a_segment_holds_is_the_sum_of_its_blocks(snapshot):
    for segment in snapshot["segments"]:
        blocks, at = segment["blocks"], segment["address"]
        for block in blocks:
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
        active = [block for block in blocks if block["state"] != "inactive"]
        assert segment["active_size"] == sum(block["size"] for block in active)
        live = [block for block in active if block["state"] == "active_allocated"]
        assert segment["allocated_size"] == sum(block["size"] for block in live)
        assert segment["requested_size"] == sum(block["requested_size"] for block in live)


def test_the_summary_of_segments_counts_what_is_reserved(snapshot):
    text = viz.segsum(snapshot)  # raises where the bytes of blocks and segments do not agree
    reserved = sum(segment["total_size"] for segment in snapshot["segments"])
    assert f"segments: {len(snapshot['segments'])}" in text and f"total_reserved: {viz.Bytes(reserved)}" in text


def test_the_trace_is_told_as_a_program(snapshot):
    text = viz.trace(snapshot)
    assert re.search(r"^\w+ = cudaMalloc\(\d+, 256\.0MiB\)$", text, re.MULTILINE)
    assert re.search(r"^cudaFree\(\w+\) # 256\.0MiB$", text, re.MULTILINE)
    assert "raise OutOfMemoryError # 16.0TiB requested" in text and "{'action'" not in text


def test_every_live_block_stands_in_a_flame_graph_with_the_line_that_asked_for_it(snapshot):
    text = viz.memory(snapshot, format_flamegraph=as_it_is)
    assert "test_memory_viz.py:" in text and "snapshot" in text
    assert viz.segments(snapshot, format_flamegraph=as_it_is).count("stream_0") >= 2


def test_two_snapshots_are_compared(snapshot, capsys):
    before = snapshot["segments"][:-1]
    viz.compare(before, snapshot["segments"], format_flamegraph=as_it_is)
    assert str(snapshot["segments"][-1]["address"]) in capsys.readouterr().out.partition("only_after")[2]


@pytest.mark.parametrize("plot", [viz.trace_plot, viz.segment_plot])
def test_the_viewers_page_carries_the_snapshot(snapshot, plot):
    page = plot(snapshot)
    (files,) = re.findall(r"const local_files = (\[.*\])", page)
    assert pickle.loads(base64.b64decode(json.loads(files)[0]["base64"]))["segments"] == snapshot["segments"]


@pytest.mark.parametrize("file", ["/course/gpulab/train.py", "/my-gpulab-course/gpulab/cuda/train.py"])
def test_an_entry_names_the_learners_line_whatever_the_folder_is_called(virtual, file):
    program = compile("def step():\n    return torch.empty(1 << 20, device='cuda')\n", file, "exec")
    names = {"torch": torch}
    exec(program, names)
    torch.cuda.memory._record_memory_history()
    try:
        held = names["step"]()
        snapshot = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    (entry,) = [entry for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"]
    assert entry["frames"][0] == {"filename": file, "line": 2, "name": "step"} and held.is_cuda
    package = str(Path(gpulab.cuda.__file__).parents[1])
    assert not any(frame["filename"].startswith(package) for frame in entry["frames"])
