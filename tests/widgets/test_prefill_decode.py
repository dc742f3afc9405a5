"""Prefill and decode on the roofline: the browser's FLOP, bytes and times are gpulab.serving.costs', and what is said is true."""

import random
import re

import pytest

from gpulab.cards.cards import CARDS
from gpulab.memory.shapes import LLAMAS, SHAPES
from gpulab.serving import costs
from gpulab.widgets import PrefillDecode
from gpulab.widgets.prefill_decode import BATCHES, FMT, PHASES, TOKENS
from tests.sampling import sampled
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 300


javascript = functions_of("prefill_decode/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    batch = rng.choice([1, BATCHES[-1], rng.choice(BATCHES)])
    model, card, phase = (rng.choice(list(table)) for table in (LLAMAS, CARDS, PHASES))
    return PrefillDecode(model, card, phase, batch, rng.choice(TOKENS))


def given(widget):
    """The job, and the card, as the widget's own code has them."""
    known = widget.known
    job = {"shape": known["models"][widget.model], "element_bytes": known["element_bytes"]}
    job |= {name: getattr(widget, name) for name in ("phase", "batch", "tokens")}
    return {"job": job, "card": known["cards"][widget.card]}


def told(widget):
    return {name: getattr(widget, name) for name in ("model", "card", "phase", "batch", "tokens")}


def test_the_browser_counts_what_python_counts(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    found = javascript("given.map(({ job }) => [m.parts(job), m.held(job)])", [given(widget) for widget in widgets])
    for widget, (parts, held) in zip(widgets, found, strict=True):
        for name, work in widget.parts().items():
            assert parts[name] == pytest.approx({"flops": work.flops, "bytes": work.bytes}, rel=1e-12), told(widget)
        assert (held["weights"], held["cache"]) == widget.held(), told(widget)


def test_the_browser_places_the_parts_where_python_does(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN, 2 * DRAWN)]
    where = (
        "given.map(({ job, card }) => Object.entries(m.parts(job)).map(([part, work]) => [part, m.place(card, work)]))"
    )
    bounds = set()
    for widget, found in zip(widgets, javascript(where, [given(widget) for widget in widgets]), strict=True):
        places = dict(found)
        card = CARDS[widget.card]
        for name, work in widget.parts().items():
            assert places[name]["bound"] == work.bound(card, FMT), told(widget)
            assert places[name]["intensity"] == pytest.approx(work.intensity, rel=1e-12)
            assert places[name]["seconds"] == pytest.approx(work.least_seconds(card, FMT), rel=1e-12)
            assert places[name]["attainable"] == pytest.approx(work.flops / work.least_seconds(card, FMT), rel=1e-12)
            bounds.add((widget.phase, name, places[name]["bound"]))
    never = {("decode", "attention", "compute")}
    assert (
        bounds
        == {(phase, name, bound) for phase in PHASES for name in places for bound in ("memory", "compute")} - never
    )


def test_the_browser_crosses_the_ridge_at_pythons_batch(javascript):
    widgets = [PrefillDecode(model, card) for model in LLAMAS for card in CARDS]
    found = javascript("given.map(({ job, card }) => m.crossing(job, card))", [given(widget) for widget in widgets])
    assert found == [widget.crossing() for widget in widgets]


def test_a_narrow_model_never_crosses_in_the_browser_either(javascript):
    one = given(PrefillDecode())
    one["job"]["shape"] |= {"layer_matrices": 1000, "ends": 700, "embedding": 64, "vocabulary": 16, "width": 4}
    assert javascript("m.crossing(given.job, given.card)", one) is None


def test_the_card_and_the_shapes_are_the_tables_own():
    known = PrefillDecode().known
    roofs = {key: (card["flops_per_s"], card["bytes_per_s"]) for key, card in known["cards"].items()}
    assert roofs == {key: (card.flops_per_s["fp16"], card.bytes_per_s) for key, card in CARDS.items()}
    assert list(known["models"]) == list(LLAMAS)
    assert all(one["parameters"] == SHAPES[name].parameters for name, one in known["models"].items())


def cells(page, name):
    line = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").all_inner_texts()


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def verdict(page):
    return page.locator(".verdict").inner_text()


def test_the_first_picture_is_decode_of_sixteen_requests(mount):
    widget = PrefillDecode()
    page, parts = mount(widget), widget.parts()
    seconds = costs.least_seconds(SHAPES[widget.model], costs.decode(16, 1024), CARDS["A100"], FMT)
    assert cells(page, "FLOP per byte")[:2] == ["15.9", "0.999"] and cells(page, "bound by")[:2] == ["memory", "memory"]
    assert cells(page, "FLOP")[0] == f"{parts['linear layers'].flops / 1e9:.0f} G"
    assert cells(page, "time at least")[2] == f"{1e3 * seconds:.1f} ms"
    assert shown(page, "tokens made") == f"{float(f'{16 / seconds:.3g}'):.0f} a second at most"
    held = [shown(page, name) for name in ("weights", "keys and values", "both, of the card")]
    assert held == ["12.6 GiB", "8.01 GiB", "26 %"]


def test_the_batch_crosses_the_ridge_by_keyboard_and_attention_stays(mount):
    page = mount(PrefillDecode(batch=160, tokens=32))
    assert cells(page, "bound by")[:2] == ["memory", "memory"]
    assert "160 new tokens share one reading of the weights, and that reading takes longer" in verdict(page)
    assert "From batch 163 on it is the other way round." in verdict(page)
    page.get_by_role("slider", name="batch").press("ArrowRight")
    assert page.evaluate("model.get('batch')") == 192 and cells(page, "bound by")[:2] == ["compute", "memory"]
    assert "Below batch 163 it was the other way round." in verdict(page)
    assert "Attention is bound by memory whatever the batch" in verdict(page)


def test_prefill_turns_from_memory_to_compute_as_the_prompt_grows(mount):
    page = mount(PrefillDecode(batch=1, tokens=32))
    prefill = page.get_by_role("button", name="prefill")
    prefill.focus()
    page.keyboard.press("Enter")
    assert prefill.get_attribute("aria-pressed") == "true" and page.evaluate("model.get('phase')") == "prefill"
    assert cells(page, "bound by")[:2] == ["memory", "memory"] and "too few tokens of a prompt" in verdict(page)
    page.get_by_role("slider", name="tokens each").press("End")
    assert cells(page, "bound by")[:2] == [
        "compute",
        "compute",
    ] and "32768 new tokens share one reading" in verdict(page)
    assert shown(page, "tokens read").endswith("a second at most")


def test_heads_that_share_keys_raise_decodes_attention(mount):
    page = mount(PrefillDecode("Llama 3.1 8B", batch=1, tokens=32768))
    assert cells(page, "FLOP per byte")[1] == "4.00" and "which 4 query heads share" in verdict(page)
    assert verdict(page).startswith("1 new token uses one reading")
    page.get_by_label("model", exact=True).select_option("Llama 2 7B")
    assert cells(page, "FLOP per byte")[1] == "1.00" and "each of its heads its own" in verdict(page)


def test_what_does_not_fit_the_card_is_said(mount):
    page = mount(PrefillDecode("Llama 2 7B", "H100", batch=512, tokens=4096))
    assert verdict(page).endswith(
        "So many tokens do not fit the card's 79.2 GiB: this is what the pass would take if they did."
    )
    assert shown(page, "keys and values") == "1 TiB" and shown(page, "both, of the card").endswith("too much")
    page.get_by_label("model", exact=True).select_option("Llama 2 70B")
    assert "The weights alone do not fit" in verdict(page)


def test_the_points_lie_on_the_roof_in_the_order_of_their_intensity(mount):
    page = mount(PrefillDecode("Llama 2 70B", "H100", batch=4, tokens=4096))
    here = page.locator(".point.here")
    assert page.locator("[role=group] > svg .point").count() == 4 and here.count() == 4, (
        "two in the picture, two in the legend"
    )
    linear, attention = (page.locator(f"svg[role=img] {tag}.here").bounding_box() for tag in ("circle", "polygon"))
    assert linear["x"] < attention["x"] and linear["y"] > attention["y"]
    assert page.locator("svg[role=img] text").filter(has_text="decode: batch 313").count() == 1


def test_the_picture_says_in_words_what_it_shows(mount):
    page = mount(PrefillDecode())
    assert page.get_by_role("img").get_attribute("aria-label") == (
        "Roofline with its ridge at 153 FLOP per byte. In decode, linear layers at 15.9 FLOP per byte, bound by memory; "
        "attention at 0.999 FLOP per byte, bound by memory."
    )


def test_all_of_it_says_that_it_is_modelled(mount):
    page = mount(PrefillDecode())
    assert "nothing is timed" in page.locator(".note").inner_text() and page.locator("thead").inner_text().startswith(
        "modelled"
    )


def test_the_keyboard_reaches_everything_in_order(mount):
    page = mount(PrefillDecode())
    assert page.locator("#widget :is(input, select, button)[data-lm-suppress-shortcuts=true]").count() == 6
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.value"))
    assert reached == ["Llama 2 7B", "A100", "batch", "tokens each", "prefill", "decode"]


def test_a_change_from_python_is_drawn(mount):
    page = mount(PrefillDecode())
    page.evaluate("model.set('card', 'T4')")
    assert page.get_by_label("card", exact=True).input_value() == "T4" and "batch 221" in verdict(page)


@pytest.mark.parametrize("width", sampled([390, 560, 720, 1280], now=(390, 1280)))
def test_moving_a_slider_moves_nothing_else(mount, width):
    page = mount(PrefillDecode("Llama 2 70B", "H100"), width=width)
    places = set()
    for phase in PHASES:
        page.get_by_role("button", name=phase).click()
        for name in ("batch", "tokens each"):
            for key in ("Home", "End", "ArrowLeft"):
                page.get_by_role("slider", name=name).press(key)
                below = (page.locator(where).bounding_box() for where in ("svg[role=img]", "table", "dl", ".note"))
                places.add(tuple(box["y"] for box in below))
    assert len(places) == 1, places


def test_without_a_script_question_picture_and_every_models_answer_stand_in_the_page():
    html, without = still_of(PrefillDecode()).split("<noscript>")
    assert (
        "Which roof do the linear layers meet" in html
        and 'viewBox="0 0 640 290"' in html
        and "From batch 163 on" in html
    )
    rows = re.findall(r"<th scope=\"row\"[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", without)
    assert rows == [(name, str(costs.crossing_batch(SHAPES[name], CARDS["A100"], FMT))) for name in LLAMAS]


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(PrefillDecode("Llama 2 70B", "H100", batch=1024, tokens=32768), width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_role("button", name="prefill").click()
    assert_accessible(page, width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"model": "GPT-2"}, {"phase": "train"}, {"batch": 3}, {"tokens": 1000}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} is one of"):
            PrefillDecode(**wrong)
    with pytest.raises(ValueError, match="no card"):
        PrefillDecode(card="H99")
