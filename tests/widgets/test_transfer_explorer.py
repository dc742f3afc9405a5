"""The transfer explorer: its arithmetic is gpulab.cuda's machine's, and it works with no kernel."""

import random

import pytest

from gpulab.cuda import CARDS
from gpulab.widgets import TransferExplorer
from tests.widgets.looks import assert_accessible, imported, in_every_look

LOOPS = 300
SWITCHES = ("pinned", "non_blocking", "side_stream", "two_buffers")


@pytest.fixture(scope="module")
def javascript(browser):
    """javascript(plans): for each, [lane, start, end] of every span that the browser computes."""
    with imported(browser, "transfer_explorer/model.js") as evaluate:
        yield lambda plans: evaluate(
            "(plans) => plans.map((p) => m.transfers(p).map((s) => [s.lane, s.start, s.end]))", plans
        )


def random_loop(rng):
    return TransferExplorer(
        rng.choice(list(CARDS)),
        rng.randint(1, 64),
        rng.randint(20, 3000),
        batches=rng.randint(1, 12),
        **{name: rng.random() < 0.5 for name in SWITCHES},
    )


def plan(widget):
    return {
        "batches": widget.batches,
        "bytes": widget.megabytes * 1e6,
        "step_us": widget.step_us,
        "pinned": widget.pinned,
        "non_blocking": widget.non_blocking,
        "side_stream": widget.side_stream,
        "buffers": 1 + widget.two_buffers,
        "rate": widget.cards[widget.card],
        "assumed": widget.assumed,
    }


def lane(spans, name):
    return [tuple(s[1:]) for s in spans if s[0] == name]


def test_the_browser_computes_the_machines_times(javascript):
    loops = [random_loop(random.Random(seed)) for seed in range(LOOPS)]
    for widget, spans in zip(loops, javascript([plan(widget) for widget in loops]), strict=True):
        log = widget.observed()
        expected = {
            "host": [(w.start_us, w.end_us) for w in log.waits],
            "copy": [(c.start_us, c.end_us) for c in log.copied],
            "step": [(k.start_us, k.end_us) for k in log.kernels],
        }
        assert len(expected["step"]) == widget.batches
        for name, times in expected.items():
            assert lane(spans, name) == [pytest.approx(time, rel=1e-9) for time in times], (name, plan(widget))


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_all_four_switches_hide_the_copies_and_three_do_not(mount):
    page = mount(TransferExplorer("H100", 16, 350))
    for name in ("pinned memory", "non_blocking=True", "a stream for the copies"):
        page.get_by_role("button", name=name).click()
    assert shown(page, "copying hidden behind steps") == "0 %"
    page.get_by_role("button", name="two buffers").click()
    assert shown(page, "copying hidden behind steps") == "80 %"
    assert "All four" in page.locator(".verdict").inner_text()


def test_a_blocking_copy_holds_the_host_though_the_device_overlaps(mount):
    page = mount(TransferExplorer("H100", 16, 350, pinned=True, side_stream=True, two_buffers=True))
    assert shown(page, "copying hidden behind steps") == "80 %"
    assert shown(page, "host held inside copy calls") != "0 µs"
    page.get_by_role("button", name="non_blocking=True").click()
    assert shown(page, "host held inside copy calls") == "0 µs"


def test_sliders_move_by_keyboard_and_the_model_follows(mount):
    page = mount(TransferExplorer(step_us=350))
    page.get_by_role("slider", name="step in µs").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('step_us')") == 351
    before = shown(page, "steps")
    page.keyboard.press("PageUp")
    assert shown(page, "steps") != before


def test_jupyterlab_leaves_the_keys_to_the_widget(mount):
    page = mount(TransferExplorer())
    focusable = page.locator("#widget :is(input, button, select, [tabindex])")
    assert {focusable.nth(i).evaluate("node => node.tagName") for i in range(focusable.count())} >= {"SELECT", "DIV"}
    assert focusable.count() == page.locator("#widget [data-lm-suppress-shortcuts=true]").count()


def test_a_change_from_python_is_drawn(mount):
    page = mount(TransferExplorer())
    page.evaluate("model.set('card', 'T4')")
    assert page.get_by_role("combobox").input_value() == "T4"


def test_the_picture_says_in_words_what_it_shows(mount):
    page = mount(TransferExplorer(batches=3))
    assert "3 batches" in page.get_by_role("img").get_attribute("aria-label")


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(TransferExplorer(pinned=True), width=width, scheme=scheme)
    assert_accessible(page, width)


def test_what_the_picture_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="1 to 64 MB"):
        TransferExplorer(megabytes=65)
    with pytest.raises(ValueError, match="no card"):
        TransferExplorer("H99")
