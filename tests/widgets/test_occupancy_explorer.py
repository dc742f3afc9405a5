"""The occupancy explorer: its numbers are the instrument's; by keyboard, on a phone, with no kernel."""

import math
import random

import pytest

from gpulab.cards.cards import CARDS
from gpulab.cards.multiprocessors import multiprocessor
from gpulab.kernels.simt.occupancy import occupancy
from gpulab.widgets import OccupancyExplorer
from tests.widgets.looks import assert_accessible, imported, in_every_look


@pytest.fixture(scope="module")
def model(browser):
    """model(expression, argument): evaluates with the module in scope as `occupancy`."""
    with imported(browser, "occupancy_explorer/model.js", "occupancy") as evaluate:
        yield evaluate


def in_python(threads, registers, shared, sm):
    """(blocks, limit), 0 blocks for one that no multiprocessor can run."""
    try:
        found = occupancy(threads, registers, shared, sm)
    except ValueError as error:
        return 0, str(error).rpartition(": ")[2]
    return found.blocks, found.limit


def test_the_browsers_blocks_and_limits_are_the_instruments(model):
    rng, cards = random.Random(4), OccupancyExplorer().cards
    asked, expected = [], []
    for _ in range(1500):
        key = rng.choice(list(CARDS))
        threads, registers, shared = rng.randint(1, 1024), rng.randint(8, 255), rng.choice([0, rng.randint(0, 98304)])
        asked.append([{"threads": threads, "registers": registers, "shared": shared}, cards[key]])
        expected.append(list(in_python(threads, registers, shared, multiprocessor(CARDS[key].capability))))
    found = model(
        "all => all.map(([launch, sm]) => { const f = occupancy.resident(launch, sm); return [f.blocks, f.limit]; })",
        asked,
    )
    assert found == expected
    assert {limit for _, limit in expected} == {"warps", "blocks", "shared memory", "registers"} and [
        0,
        "registers",
    ] in expected


def test_waves_are_counted_to_the_last_block(model):
    rng = random.Random(5)
    for _ in range(200):
        blocks, places = rng.randint(1, 5000), rng.randint(1, 4000)
        found = model("([blocks, places]) => occupancy.waves(blocks, places)", [blocks, places])
        waves = math.ceil(blocks / places)
        assert found["count"] == waves
        assert found["last"] == pytest.approx((blocks - (waves - 1) * places) / places)
        assert found["share"] == pytest.approx(blocks / (waves * places))


def status(page):
    return page.locator(".status").inner_text()


def test_it_says_what_binds_and_how_full_the_last_wave_is(mount):
    page = mount(OccupancyExplorer(blocks=440))
    assert "holds 6 blocks, 48 of 48 warps (100 %); warps bind" in status(page)
    assert "2 waves of up to 432 blocks; the last is 2 % full, all together 51 %" in status(page)
    assert page.locator(".place").count() == 48 and page.locator(".store.binds .name").inner_text() == "warps"


def test_it_is_moved_by_keyboard(mount):
    page = mount(OccupancyExplorer(registers=40, card="A100"))
    page.get_by_role("slider", name="registers of a thread").focus()
    assert "6 blocks, 48 of 64 warps (75 %); registers bind" in status(page)
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('registers')") == 41 and "5 blocks" in status(page)
    page.get_by_label("Card").select_option("T4")
    assert "4 blocks, 32 of 32 warps" in status(page)


def test_a_block_that_fits_nowhere_is_said(mount):
    page = mount(OccupancyExplorer(threads=1024, registers=65))
    assert "No multiprocessor of this card can run such a block: registers do not suffice." in status(page)


def test_it_asks_and_hides_the_answer(mount):
    page = mount(OccupancyExplorer(seed=3))
    page.get_by_role("button", name="Ask me").click()
    assert "hidden until you answer" in status(page) and page.locator(".place, .store").count() == 0
    state = page.evaluate("['card', 'threads', 'registers', 'shared'].map(n => model.get(n))")
    blocks, limit = in_python(*state[1:], multiprocessor(CARDS[state[0]].capability))
    page.get_by_role("spinbutton").fill(str(blocks))
    page.keyboard.press("Enter")
    said = page.locator(".answer").inner_text()
    assert said.startswith("Right.") and limit in said and "1 of 1 right" in said
    page.get_by_role("button", name="Ask me").click()
    page.get_by_role("spinbutton").fill("64")
    page.get_by_role("button", name="Answer").click()
    assert "No." in page.locator(".answer").inner_text() and "1 of 2 right" in page.locator(".answer").inner_text()


def test_python_moves_it(mount):
    page = mount(OccupancyExplorer())
    page.evaluate("model.set('threads', 768)")
    assert "holds 2 blocks" in status(page)


@pytest.mark.parametrize("asking", [False, True])
@in_every_look
def test_axe_finds_nothing(mount, asking, scheme, width):
    page = mount(OccupancyExplorer(), width=width, scheme=scheme)
    if asking:
        page.get_by_role("button", name="Ask me").click()
    assert_accessible(page, width)


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"threads": 1025}, {"registers": 256}, {"shared": -1}, {"blocks": 0}]
)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="threads 1 to 1024"):
        OccupancyExplorer(**wrong)


def test_an_unknown_card_is_refused():
    with pytest.raises(ValueError, match="no card is called"):
        OccupancyExplorer("H9000")
