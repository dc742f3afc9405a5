"""The cold start: the browser's timeline is gpulab.platforms', and what is said of it is true."""

import random
import re

import pytest

from gpulab.platforms import bandwidths
from gpulab.widgets import ColdStart
from gpulab.widgets.cold_start import CHOICES, VALUES
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 200


javascript = functions_of("cold_start/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    return ColdStart(**{name: rng.choice(choices) for name, choices in (CHOICES | VALUES).items()})


def given(widget):
    """The start as the widget's own code has it."""
    sizes = {name: 1e9 * getattr(widget, name) for name in ("weights", "image", "chunk")}
    work = {"runtime": widget.runtime, "graphs": widget.graphs, "network": widget.network, "path": list(widget.path)}
    return {**sizes, **work, "needed": sizes["image"] * widget.needed / 100}


def test_the_browser_times_what_python_times(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    asked = {"starts": [given(widget) for widget in widgets], "rates": bandwidths()}
    found = javascript("given.starts.map((start) => m.timeline(start, given.rates))", asked)
    critical = set()
    for widget, timeline in zip(widgets, found, strict=True):
        expected = widget.timeline()
        for name, span in expected.spans.items():
            assert timeline["spans"][name] == pytest.approx(list(span), rel=1e-9), widget.get_state()
        assert timeline["ready"] == pytest.approx(expected.ready) and set(timeline["saves"]) == set(expected.saves)
        for name, saved in expected.saves.items():
            assert timeline["saves"][name] == pytest.approx(saved, abs=1e-9 * expected.ready)
        assert expected.saves[timeline["bottleneck"]] == pytest.approx(max(expected.saves.values()))
        critical.add(tuple(timeline["critical"]))
        if widget.graphs and abs(expected.spans["runtime"][1] - expected.spans["weights"][1]) > 1e-9:
            assert tuple(timeline["critical"]) == expected.critical
    assert critical == {("image", "runtime", "graphs"), ("weights", "graphs")}


def cell(page, name):
    line = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").inner_text()


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def verdict(page):
    return page.locator(".verdict").inner_text()


def test_the_first_picture_is_pythons(mount):
    widget = ColdStart()
    page, expected = mount(widget), widget.timeline()
    assert shown(page, "ready after") == f"{expected.ready:.3g} s" and cell(page, "graphs") == "10.0 s"
    assert verdict(page).startswith("The weights are waited for, and the image is not.") and expected.critical == (
        "weights",
        "graphs",
    )
    assert page.locator("rect.on").count() == 2 and page.locator("rect.off").count() == 2


def test_a_lazy_image_saves_nothing_while_weights_are_waited_for_by_keyboard(mount):
    page = mount(ColdStart())
    before = shown(page, "ready after")
    read = page.get_by_role("slider", name="read of it")
    read.press("Home")
    assert (
        page.evaluate("model.get('needed')") == 1
        and read.get_attribute("aria-valuetext") == "1 %"
        and shown(page, "ready after") == before
    )
    page.get_by_label("weights in", exact=True).select_option("host memory")
    assert verdict(page).startswith("The image is waited for") and page.evaluate("model.get('origin')") == "host memory"


def test_chunks_hide_all_tiers_but_the_slowest(mount):
    page, widget = mount(ColdStart(weights=140)), ColdStart(weights=140, chunk=0)
    in_chunks = float(shown(page, "weights there after").removesuffix(" s"))
    page.get_by_role("slider", name="chunk").press("End")
    whole = float(shown(page, "weights there after").removesuffix(" s"))
    assert whole == pytest.approx(widget.timeline().spans["weights"][1], rel=5e-3) and in_chunks < 0.7 * whole


def test_the_picture_says_in_words_what_it_shows(mount):
    words = mount(ColdStart()).get_by_role("img").get_attribute("aria-label")
    assert re.match(r"image from 0.00 µs to [\d.]+ s, runtime from", words) and words.endswith(
        "Critical: weights and graphs."
    )


def test_the_keyboard_reaches_everything_in_order(mount):
    page = mount(ColdStart())
    assert page.locator("#widget :is(input, select)[data-lm-suppress-shortcuts=true]").count() == 10
    reached = []
    for _ in range(10):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.value"))
    sliders = ["weights", "chunk", "image", "read of it", "runtime", "graphs"]
    assert reached == ["object store", "network, 25 Gb/s", "NVMe, PCIe 4", "PCIe 4 x16", *sliders]


@pytest.mark.parametrize("width", [390, 720, 1280])
def test_moving_a_slider_moves_nothing_else(mount, width):
    page = mount(ColdStart(), width=width)
    places = set()
    for name in ("weights", "chunk", "image", "read of it", "graphs"):
        for key in ("Home", "End", "ArrowLeft"):
            page.get_by_role("slider", name=name).press(key)
            below = (page.locator(where).bounding_box() for where in ("svg[role=img]", ".below table", ".note"))
            places.add(tuple(round(box["y"]) for box in below))
    assert len(places) == 1, places


def test_without_a_script_question_picture_and_every_origins_answer_stand_in_the_page():
    html, without = still_of(ColdStart()).split("<noscript>")
    assert (
        "What does this start wait for" in html
        and 'viewBox="0 0 640 152"' in html
        and "The weights are waited for" in html
    )
    rows = re.findall(r"<tr><th scope=\"row\"[^>]*>(.*?)</th><td>([^<]*)</td><td>([^<]*)</td></tr>", without)
    expected = [(origin, ColdStart(origin=origin).timeline()) for origin in CHOICES["origin"]]
    assert rows == [
        (origin, f"{one.ready:.3g} s".replace("25 s", "25.0 s"), one.bottleneck) for origin, one in expected
    ]


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(ColdStart(), width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_role("slider", name="weights").press("End")
    assert_accessible(page, width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"origin": "tape"}, {"network": "Ethernet 10"}, *({name: -1} for name in VALUES)):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} is one of"):
            ColdStart(**wrong)
