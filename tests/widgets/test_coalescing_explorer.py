"""The coalescing explorer: its sectors are the interpreter's, and it works with no kernel."""

import random

import numpy as np
import pytest
import torch

from gpulab import observe
from gpulab.kernels import cuda
from gpulab.kernels.simt.requests import sectors
from gpulab.widgets import CoalescingExplorer
from tests.widgets.looks import assert_accessible, imported, in_every_look

REQUESTS = 500
DTYPES = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}


@pytest.fixture(scope="module")
def model(browser):
    with imported(browser, "coalescing_explorer/model.js") as evaluate:
        yield evaluate


def random_requests(count):
    rng = random.Random(4)
    return [
        {"stride": rng.randint(0, 40), "offset": rng.randint(0, 31), "item_bytes": rng.choice((1, 2, 4, 8, 16))}
        for _ in range(count)
    ]


def test_the_browser_counts_the_interpreters_sectors(model):
    asked = random_requests(REQUESTS)
    found = model(
        "(all) => all.map((one) => { const r = m.request(one); return [r.sectors.length, r.used, r.moved]; })", asked
    )
    for one, (count, used, moved) in zip(asked, found, strict=True):
        addresses = one["item_bytes"] * (one["offset"] + one["stride"] * np.arange(32))
        assert count == sectors(addresses, np.zeros(32, np.int64))[0] and moved == 32 * count
        assert used == one["item_bytes"] * len(set(addresses.tolist()))


@cuda.jit
def strided_read(x, y, stride, offset):
    lane = cuda.grid(1)
    y[lane] = x[offset + stride * lane]


def test_a_real_launch_moves_what_the_browser_says(model):
    for one in [r for r in random_requests(60) if r["item_bytes"] in DTYPES]:
        x = torch.zeros(2048, dtype=DTYPES[one["item_bytes"]])
        with observe() as seen:
            strided_read[1, 32](x, torch.empty(32, dtype=x.dtype), one["stride"], one["offset"])
        assert seen.launches[0].total("read_sectors") == model("(one) => m.request(one).sectors.length", one)


def test_one_sector_is_not_said_to_be_several(model):
    says = "(one) => m.reason(one, m.request(one))"
    assert "1 sector," in model(says, {"stride": 1, "offset": 0, "item_bytes": 1})
    assert "4 sectors," in model(says, {"stride": 1, "offset": 0, "item_bytes": 4})


def test_every_lane_is_drawn_once(model):
    for one in random_requests(60):
        lanes = model(
            "(one) => { const r = m.request(one); return r.sectors.flatMap((s) => m.itemsOf(s, r, one.item_bytes).flat()); }",
            one,
        )
        assert sorted(lanes) == list(range(32))


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_sliders_and_presets_move_it_by_keyboard(mount):
    page = mount(CoalescingExplorer())
    assert shown(page, "sectors that move") == "4" and shown(page, "of them used") == "128, 100 %"
    page.get_by_role("slider", name="stride in items").focus()
    page.keyboard.press("ArrowRight")
    assert shown(page, "sectors that move") == "8" and page.evaluate("model.get('stride')") == 2
    page.get_by_role("button", name="misaligned").focus()
    page.keyboard.press("Enter")
    assert shown(page, "sectors that move") == "5" and "12 bytes into a sector" in page.locator(".verdict").inner_text()


def test_the_items_type_changes_the_cost(mount):
    page = mount(CoalescingExplorer(stride=2))
    page.get_by_role("combobox").select_option("2")
    assert shown(page, "sectors that move") == "4" and page.locator(".sector").count() == 4


def test_a_change_from_python_is_drawn(mount):
    page = mount(CoalescingExplorer())
    page.evaluate("model.set('stride', 32)")
    assert shown(page, "sectors that move") == "32" and page.locator(".item.used").count() == 32


def test_the_quiz_marks_right_and_wrong(mount):
    page = mount(CoalescingExplorer(quiz=True, seed=3))
    page.get_by_role("spinbutton", name="Sectors").fill("99")
    page.get_by_role("button", name="Answer").click()
    assert page.locator(".bad").inner_text().startswith("Wrong")
    expected = page.locator(".sector").count()
    assert f"Wrong: {expected} sector" in page.locator(".bad").inner_text()
    page.get_by_role("button", name="Next question").click()
    page.get_by_role("button", name="Explore").click()
    page.get_by_role("button", name="Quiz me").click()
    assert "0 of 1 right" in page.locator(".note").last.inner_text()


def test_a_right_answer_counts(mount):
    first = mount(CoalescingExplorer(quiz=True, seed=11))
    first.get_by_role("spinbutton").fill("1")
    first.get_by_role("button", name="Answer").click()
    expected = first.locator(".sector").count()
    again = mount(CoalescingExplorer(quiz=True, seed=11))
    again.get_by_role("spinbutton").fill(str(expected))
    again.keyboard.press("Enter")
    assert (
        "Right." in again.locator(".good").inner_text() and "1 of 1 right" in again.locator(".note").last.inner_text()
    )


@pytest.mark.parametrize("quiz", [False, True])
@in_every_look
def test_axe_finds_nothing(mount, scheme, width, quiz):
    page = mount(
        CoalescingExplorer(stride=3, item_bytes=1 if width == 390 else 4, quiz=quiz, seed=1), width=width, scheme=scheme
    )
    if quiz:
        page.get_by_role("spinbutton").fill("7")
        page.get_by_role("button", name="Answer").click()
    assert_accessible(page, width)


def test_what_the_picture_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="a stride of 0 to 40"):
        CoalescingExplorer(stride=41)
    with pytest.raises(ValueError, match="items of 1, 2, 4, 8, 16 bytes"):
        CoalescingExplorer(item_bytes=3)
