"""The trace for a reader: the table by source line, steps, figures; and what crosses to the referee."""

import json

import numpy as np
import pytest
import torch

import gpulab
from gpulab.kernels import cuda, float32, trace, warp_order
from gpulab.observe import Observation
from tests.kernels.simt.launching import at_line, floats, launched, zeros


@cuda.jit(device=True)
def squared(value):
    return value * value


@cuda.jit
def half_of_a_warp(out, x):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = squared(x[i * 2])
    if t < 16:
        out[i] = s[t]


@cuda.jit
def faulty(out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = t
    out[t + 1] = s[63 - t]


def test_the_table_shows_each_line_of_the_kernel_beside_its_counts():
    with gpulab.observe() as seen:
        half_of_a_warp[1, 64](zeros(64), floats(128))
    lines = seen.table().splitlines()
    assert any("s[t] = squared(x" in row and " 16" in row for row in lines)
    assert any("return value * value" in row for row in lines)
    head = " ".join(seen.table().partition("half_of_a_warp[1, 64]")[2].split())
    assert "576 B moved (56% of it used)" in head and "limit: warps" in head


def test_the_table_fits_80_columns_and_loses_no_number():
    with gpulab.observe() as seen:
        half_of_a_warp[1, 64](zeros(64), floats(128))
        faulty[1, 64](zeros(64))
    lines = seen.table().splitlines()
    assert max(map(len, lines)) <= 80
    (launch, _) = seen.launches
    conflicts = [line for line in launch.lines if line.flops]
    assert conflicts and all(
        any(row.split()[:1] == [str(c.line.number)] and row.split()[-1] == str(c.flops) for row in lines)
        for c in conflicts
    )


def test_the_table_says_what_is_wrong():
    with gpulab.observe() as seen:
        faulty[1, 64](zeros(64))
    text = " ".join(seen.table().split())
    assert "out of bounds: out[64] by thread (63, 0, 0) of block (0, 0, 0)" in text
    assert "race in shared memory, read after write" in text
    assert "(s[t] = t)" in text and "(out[t + 1] = s[63 - t])" in text


def test_columns_that_hold_nothing_are_left_out():
    with gpulab.observe() as seen:
        half_of_a_warp[1, 64](zeros(64), floats(128))
    assert "atomics" not in seen.table() and "flops" in seen.table()


def test_lines_are_in_the_order_of_the_source():
    launch = launched(half_of_a_warp, 1, 64, zeros(64), floats(128))
    numbers = [counts.line.number for counts in launch.lines]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)


def test_counts_of_one_block_times_the_blocks_are_the_counts_of_the_grid():
    @cuda.jit
    def copy(out, x):
        i = cuda.grid(1)
        if i % 3:
            out[i] = x[i] + 1

    one = launched(copy, 1, 96, zeros(96), floats(96))
    many = launched(copy, 200, 96, zeros(19200), floats(19200))
    for name in ("instructions", "active_lanes", "divergent_branches", "loads", "read_sectors", "flops"):
        assert many.total(name) == 200 * one.total(name) > 0


@pytest.mark.parametrize("seed", [0, 5])
def test_counts_do_not_depend_on_the_order_of_the_warps(seed):
    arguments = lambda: (zeros(192), floats(384))
    lockstep = launched(half_of_a_warp, 3, 64, *arguments())
    turns = launched(half_of_a_warp, 3, 64, *arguments(), order=seed)
    assert [vars(a) | {"line": 0} for a in lockstep.lines] == [vars(b) | {"line": 0} for b in turns.lines]


def test_the_arrays_of_a_launch_say_what_was_read_twice():
    @cuda.jit
    def twice(out, x):
        i = cuda.grid(1)
        out[i] = x[i] + x[0]

    launch = launched(twice, 1, 32, zeros(32), floats(32))
    use = launch.array("x")
    assert (use.bytes, use.read_bytes, use.distinct_read_bytes) == (128, 256, 128)
    use = launch.array("out")
    assert (use.written_bytes, use.distinct_written_bytes, use.read_bytes) == (128, 128, 0)


def test_the_arrays_of_a_launch_say_what_the_busiest_thread_stored():
    @cuda.jit
    def pairs_in_the_second_block(out, sums):
        i = cuda.grid(1)
        out[i] = i
        if cuda.blockIdx.x == 1 and i % 2:
            out[i - 1] = i
        cuda.atomic.add(sums, i % 3, 1)

    launch = launched(pairs_in_the_second_block, 3, 40, zeros(120), zeros(3))
    assert [launch.array(name).busiest_stores for name in ("out", "sums")] == [2, 1]


@pytest.fixture
def wire():
    """The autograder's own packages are not on every machine with a GPU."""
    return pytest.importorskip("autograder.protocol.wire")


def test_a_launch_crosses_to_the_referee_and_back(wire):
    with gpulab.observe() as seen:
        faulty[1, 64](zeros(64))
    data = wire.decode(wire.encode(seen.to_dict()))
    assert Observation.from_dict(data).launches == seen.launches
    json.dumps(seen.to_dict())


def test_the_worst_kernel_stays_within_what_may_cross(wire):
    """Findings are bounded, whatever a kernel does and however often it is launched."""
    with gpulab.observe() as seen:
        for _ in range(50):
            faulty[100, 64](zeros(64))
    assert len(wire.encode(seen.to_dict())) < wire.MAX_BODY_BYTES / 4


def test_steps_hold_the_lanes_of_one_block():
    with trace(block=1) as steps:
        half_of_a_warp[2, 64](zeros(128), floats(256))
    shapes = {step.lanes.shape for step in steps.steps}
    assert shapes == {(2, 32)}
    store = next(step for step in steps.steps if step.line.text == "out[i] = s[t]")
    assert store.lanes.sum() == 16 and store.lanes[0, :16].all()


def test_accesses_hold_addresses_by_lane():
    with trace() as steps:
        half_of_a_warp[1, 64](zeros(64), floats(128))
    (load,) = steps.find("squared(x", store=False)
    lanes, addresses = load.of_warp(1)
    assert (load.array, load.space, load.store) == ("x", "global", False)
    np.testing.assert_array_equal(addresses, 8 * (32 + lanes))
    with pytest.raises(ValueError, match="used no memory"):
        steps.find("if t < 16")


def test_steps_are_the_same_when_warps_take_turns():
    with trace() as lockstep:
        half_of_a_warp[1, 64](zeros(64), floats(128))
    with warp_order(3), trace() as turns:
        half_of_a_warp[1, 64](zeros(64), floats(128))
    assert sum(step.lanes.sum() for step in lockstep.steps) == sum(step.lanes.sum() for step in turns.steps)


def test_steps_are_bounded_and_say_so():
    with trace(max_steps=3) as steps:
        half_of_a_warp[1, 64](zeros(64), floats(128))
    assert len(steps.steps) == 3 and len(steps.accesses) == 3 and steps.cut


def test_the_figures_say_in_words_what_they_show():
    with trace() as steps:
        half_of_a_warp[1, 64](zeros(64), floats(128))
    assert "6 warp steps" not in steps.figure().alt and "warp step" in steps.figure().alt
    assert "32 lanes, 8 sectors, 128 of 256 bytes used" in steps.addresses("squared(x").alt
    assert "32 banks, at most 1 word in one bank" in steps.addresses("squared(x", store=True).alt
    assert "<svg" in steps.figure()._repr_html_() and "currentColor" in steps.addresses("squared(x").svg


def test_a_figure_of_nothing_is_an_error():
    with trace() as steps:
        pass
    with pytest.raises(ValueError, match="no step was traced"):
        steps.figure()


def test_lines_of_a_device_function_are_counted_under_its_name():
    launch = launched(half_of_a_warp, 1, 64, zeros(64), floats(128))
    line = at_line(launch, "return value * value")
    assert line.line.function == "squared" and line.flops == 64


def test_a_launch_is_no_operation_of_pytorch():
    out, x = torch.zeros(64), torch.zeros(128)
    with gpulab.observe() as seen:
        half_of_a_warp[1, 64](out, x)
    assert seen.ops == () and len(seen.launches) == 1
