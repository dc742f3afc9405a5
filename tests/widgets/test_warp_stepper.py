"""The warp stepper: its sums are the trace's; by keyboard, on a phone, with no kernel."""

import json
import random

import numpy as np
import pytest
import torch

from gpulab.kernels import cuda, trace
from gpulab.kernels.simt.batch import unravel
from gpulab.widgets import WarpStepper
from tests.widgets.looks import assert_accessible, imported, in_every_look


@cuda.jit
def parts(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    if x[i] < 0.0:
        out[i] = 1.0
    else:
        out[i] = 2.0


@cuda.jit
def busy(kind, turns, out):
    x, y = cuda.grid(2)
    i = y * cuda.gridsize(2)[0] + x
    v = 0.0
    for _ in range(turns[i % turns.size]):
        if kind[i % kind.size] == 0:
            v = v + 1.0
        elif kind[i % kind.size] == 1:
            continue
        else:
            v = v - 1.0
            break
    if i < out.size:
        out[i] = v


def traced(kernel, grid, block, *arguments, number=0):
    with trace(block=number) as steps:
        kernel[grid, block](*arguments)
    return steps


def a_stepper(**options):
    """Block 0: warp 1 splits. Block 1, of 56 threads too: eight of them have an element."""
    x = torch.arange(-40.0, 24.0)
    arguments = x, torch.empty(64)
    return WarpStepper(parts, 2, 56, [traced(parts, 2, 56, *arguments, number=n) for n in (0, 1)], **options)


@pytest.fixture(scope="module")
def masks(browser):
    """masks(expression, argument): evaluates with the module in scope as `masks`."""
    with imported(browser, "warp_stepper/masks.js", "masks") as evaluate:
        yield evaluate


def random_traces(count):
    rng = random.Random(8)
    for _ in range(count):
        block = rng.choice([(40, 2), (16, 3), (32, 4), (7, 5), (100, 1)])
        grid = (rng.randint(1, 3), rng.randint(1, 2))
        kind = torch.tensor([rng.randint(0, 2) for _ in range(rng.randint(3, 40))])
        turns = torch.tensor([rng.randint(0, 3) for _ in range(rng.randint(1, 9))])
        number = rng.randrange(grid[0] * grid[1])
        steps = traced(busy, grid, block, kind, turns, torch.empty(rng.randint(1, 400)), number=number)
        yield steps, grid, block, WarpStepper(busy, grid, block, [steps])


def test_the_browsers_sums_are_the_traces(masks):
    for steps, _, block, widget in random_traces(25):
        warps = steps.steps[0].lanes.shape[0]
        exists = np.arange(32 * warps).reshape(warps, 32) < block[0] * block[1]
        lanes = np.stack([step.lanes for step in steps.steps])
        running = lanes.any(axis=2)
        expected = [
            {
                "issued": int(running[: at + 1].sum()),
                "used": int(lanes[: at + 1].sum()),
                "offered": int((running[: at + 1] * exists.sum(axis=1)).sum()),
            }
            for at in range(len(lanes))
        ]
        there = masks(
            "([steps, block]) => steps.map((_, at) => masks.totals(steps, block, at))",
            [widget.runs[0]["steps"], widget.block],
        )
        assert there == expected


def test_the_browsers_lanes_are_the_traces(masks):
    for steps, _, _, widget in random_traces(10):
        there = masks("steps => steps.map(([, all]) => all.map(masks.lanes))", widget.runs[0]["steps"])
        assert np.array_equal(np.array(there, dtype=bool), np.stack([step.lanes for step in steps.steps]))


def test_a_lanes_indices_are_cudas(masks):
    rng = random.Random(9)
    for _ in range(200):
        grid, block = [rng.randint(1, 4) for _ in range(3)], [rng.randint(1, 9) for _ in range(3)]
        number, thread = rng.randrange(np.prod(grid)), rng.randrange(np.prod(block))
        found = masks("a => masks.thread(...a)", [grid, block, number, thread // 32, thread % 32])
        inside, which = unravel(thread, block), unravel(number, grid)
        assert found["inside"] == list(inside) and found["block"] == list(which)
        assert found["inGrid"] == [w * extent + i for w, extent, i in zip(which, block, inside)]


def status(page):
    return page.locator(".status").inner_text()


def test_it_steps_by_keyboard(mount):
    page = mount(a_stepper())
    assert "Step 1 of 5" in status(page) and "i = cuda.grid(1)" in status(page)
    assert "warp 0, 32 of 32; warp 1, 24 of 24" in status(page)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("End")
    assert "Step 5 of 5" in status(page) and "warp 1, 16 of 24" in status(page) and "out[i] = 2.0" in status(page)
    assert page.locator(".codeline[aria-current]").inner_text().endswith("out[i] = 2.0")
    page.get_by_role("button", name="Previous").focus()
    page.keyboard.press("Enter")
    assert "warp 0, 32 of 32; warp 1, 8 of 24" in status(page) and page.evaluate("model.get('step')") == 4


def test_lanes_that_take_part_are_drawn(mount):
    page = mount(a_stepper(step=4))
    rows = page.locator(".warp")
    assert [rows.nth(warp).locator(".lane.on").count() for warp in (0, 1)] == [32, 8]
    assert rows.nth(1).locator(".lane.none").count() == 8
    assert rows.nth(1).locator(".lane").nth(3).get_attribute("title") == "lane 3: threadIdx 35, in the grid 35"


def test_another_block_is_another_trace(mount):
    page = mount(a_stepper())
    page.get_by_role("button", name="Block 1", exact=True).click()
    assert page.get_by_role("button", name="Block 1", exact=True).get_attribute("aria-pressed") == "true"
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("End")
    assert "warp 0, 8 of 32." in status(page) and "warp 1," not in status(page)


def test_it_asks_before_it_shows(mount):
    page = mount(a_stepper(step=3))
    page.get_by_role("button", name="Ask me first").click()
    assert page.locator(".lane.on").count() == 0
    page.get_by_role("spinbutton").fill("24")
    page.keyboard.press("Enter")
    assert "No. 8 of 24 lanes of warp 1 take part. 0 of 1 right." in page.locator(".ask").inner_text()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("spinbutton").fill("16")
    page.get_by_role("button", name="Answer").click()
    assert "Right." in page.locator(".ask").inner_text() and "1 of 2 right" in page.locator(".ask").inner_text()
    assert "Step 5 of 5" in status(page)


def test_what_a_question_hid_comes_back_without_an_answer(mount):
    page = mount(a_stepper(step=3))
    page.get_by_role("button", name="Ask me first").click()
    assert page.locator(".lane.on").count() == 0
    page.get_by_role("button", name="Ask me first").click()
    line = page.locator(".codeline[aria-current] .text").inner_text().strip()
    assert page.locator(".lane.on").count() > 0 and line in status(page)
    page.get_by_role("button", name="Ask me first").click()
    page.get_by_role("button", name="Play").click()
    assert page.locator(".lane.on").count() > 0


def test_it_plays_to_the_end_and_stops(mount):
    page = mount(a_stepper(step=4))
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("model.get('step') === 5")
    page.get_by_role("button", name="Play").wait_for()


def test_python_moves_it(mount):
    page = mount(a_stepper())
    page.evaluate("model.set('step', 2)")
    assert "Step 2 of 5" in status(page)


def test_no_path_of_this_machine_is_in_the_page():
    assert __file__ not in json.dumps(a_stepper().get_state(), default=str)


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(a_stepper(step=3), width=width, scheme=scheme)
    page.get_by_role("button", name="Ask me first").click()
    assert_accessible(page, width)


def test_a_trace_of_nothing_is_refused():
    with trace() as steps:
        pass
    with pytest.raises(ValueError, match="no steps"):
        WarpStepper(parts, 1, 32, [steps])


def test_a_trace_that_was_cut_is_refused():
    with trace(max_steps=2) as steps:
        parts[1, 32](torch.ones(32), torch.empty(32))
    with pytest.raises(ValueError, match="too many to step through"):
        WarpStepper(parts, 1, 32, [steps])


def test_a_trace_of_another_kernel_or_block_is_refused():
    steps = traced(parts, 1, 32, torch.ones(32), torch.empty(32))
    for kernel, block in ((busy, 32), (parts, 64)):
        with pytest.raises(ValueError, match="not of this kernel"):
            WarpStepper(kernel, 1, block, [steps])


def test_a_step_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="step 9 of 5"):
        a_stepper(step=9)
