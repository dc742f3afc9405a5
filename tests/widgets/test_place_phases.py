"""Where prefill and decode run: the browser's times are Python's, these are the roofline's, and what is said is true."""

import random
import re

import pytest

from gpulab.cards.links import LINKS
from gpulab.serving import Roofline
from gpulab.widgets import PlacePhases
from gpulab.widgets.place_phases import CARD_KEYS, CARDS, MODELS, PORTS, VALUES, placed
from tests.sampling import sampled
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 150
TIMES = ("cards", "wait", "prefill", "exposed", "gap", "worst", "batch", "first", "last")


javascript = functions_of("place_phases/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    moved = {name: rng.choice([stops[0], stops[-1], *stops, *stops]) for name, stops in VALUES.items()}
    return PlacePhases(rng.choice(MODELS), rng.choice(CARD_KEYS), **moved)


def given(widget):
    """What the widget's own code has."""
    known, load = widget.known, widget.load
    told = {name: getattr(load, name) for name in ("prompt", "found", "writes", "rate", "cards", "budget")}
    return {
        "clock": known["clocks"][f"{widget.card} {widget.model}"],
        "load": told | {"most": known["most"]},
        "link": known["links"][str(widget.gbit)],
        "share": known["share"],
    }


def told(times):
    return times and {name: getattr(times, name) for name in TIMES}


def assert_close(found, expected):
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found == pytest.approx(expected, rel=1e-9)


def test_the_browser_places_as_python_does(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    found = javascript(
        "given.map((one) => m.placed(one.clock, one.load, one.link))", [given(widget) for widget in widgets]
    )
    kinds = set()
    for widget, answer in zip(widgets, found, strict=True):
        one, two, even = widget.shared(), widget.split(), widget.break_even()
        assert_close(answer["one"], told(one))
        assert_close(answer["two"], two and told(two[0]))
        if two:
            sent = {"nbytes": two[1].nbytes, "seconds": two[1].seconds, "exposed": two[1].exposed, "load": two[1].load}
            assert_close(answer["link"], sent)
        assert_close(answer["even"] and answer["even"] * 8e-9 / widget.known["share"], even)
        kinds.add((one is None, two is None, even is None))
    assert {(False, False, False), (False, False, True), (True, True, True)} <= kinds, kinds


def test_a_step_is_the_rooflines(javascript):
    rng, asked, sent, terms = random.Random(1), [], [], PlacePhases().known["clocks"]
    for _ in range(200):
        card, model, chunk = rng.choice(CARD_KEYS), rng.choice(MODELS), (rng.randint(1, 4096), rng.randint(0, 8192))
        chunk = rng.choice([None, chunk])
        batch, at = rng.randint(0 if chunk else 1, 256), rng.randint(0, 20_000)
        asked.append((Roofline(card, model), batch, at, chunk))
        told = chunk and {"fresh": chunk[0], "before": chunk[1]}
        sent.append({"clock": terms[f"{card} {model}"], "batch": batch, "at": at, "chunk": told})
    found = javascript("given.map(({ clock, batch, at, chunk }) => m.seconds(clock, batch, at, chunk))", sent)
    expected = [
        clock.step_us([(1, at)] * batch + ([chunk] if chunk else [])) / 1e6 for clock, batch, at, chunk in asked
    ]
    assert found == pytest.approx(expected, rel=1e-9)


def pipelined(layers, computed, sent):
    """Seconds after the last layer is computed until the last is sent, layer by layer."""
    free = 0.0
    for layer in range(layers):
        free = max(free, (layer + 1) * computed) + sent
    return free - layers * computed


def test_the_transfer_is_a_pipeline_of_layers():
    for seed in range(40):
        widget = random_widget(seed)
        if (found := widget.split()) is None:
            continue
        times, sent = found
        layers = widget.clock.shape.layers
        expected = pipelined(layers, times.prefill / layers, sent.seconds / layers)
        assert sent.exposed == pytest.approx(expected, rel=1e-6)
        assert sent.nbytes == widget.load.new * widget.clock.kv_bytes
        port = LINKS[PORTS[VALUES["gbit"].index(widget.gbit)]]
        assert sent.seconds == pytest.approx(sent.nbytes / port.reached_bytes_per_s)
        assert port.reached_bytes_per_s == pytest.approx(widget.gbit * 1e9 / 8 * port.share)


def test_at_the_break_even_both_are_done_together():
    met = 0
    for seed in range(60):
        widget = random_widget(seed)
        one, two, even = widget.shared(), placed.split(widget.clock, widget.load), widget.break_even()
        if one is None or even is None:
            continue
        rate = even * 1e9 / 8 * LINKS[PORTS[0]].share
        sent = placed.transfer(widget.clock, widget.load, two, rate)
        assert sent.load <= 1 + 1e-9
        if sent.load < 1 - 1e-9:
            assert two.last + sent.exposed == pytest.approx(one.last, rel=1e-9)
            met += 1
    assert met > 5


def gap_beside(widget, batch):
    """Seconds between tokens on shared cards with so many decodes, step by step over a second; infinite where prompts pile up."""
    clock, load, decodes = widget.clock, widget.load, [(1, widget.load.context)] * batch
    steps = [clock.step_us([*decodes, chunk]) / 1e6 for chunk in placed.chunks(load, batch)]
    assert sum(new for new, _ in placed.chunks(load, batch)) == load.new and sum(steps)
    prompts = load.rate / CARDS
    left = 1 - prompts * sum(steps)
    return 1 / (prompts * len(steps) + left / (clock.step_us(decodes) / 1e6)) if left > 0 else float("inf")


def test_decodes_keep_up_with_what_comes_and_one_fewer_would_not():
    checked = 0
    for seed in range(40):
        widget = random_widget(seed)
        one = widget.shared()
        if one is None or one.batch == 1:
            continue
        load, rate = widget.load, widget.rate / CARDS
        assert one.batch >= rate * (load.writes - 1) * one.gap
        assert rate * (load.writes - 1) * gap_beside(widget, one.batch - 1) > one.batch - 1
        checked += 1
    assert checked > 3


def cells(page, name):
    line = page.locator(".below tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").all_inner_texts()


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def verdict(page):
    return page.locator(".verdict").inner_text()


def three(value):
    return f"{value:.0f}" if value >= 999.5 else f"{value:#.3g}".rstrip(".")


def ms(seconds):
    return f"{three(1e3 * seconds)} ms"


def test_the_first_picture_is_pythons(mount):
    widget = PlacePhases()
    page, one, (two, sent) = mount(widget), widget.shared(), widget.split()
    for name, field in (("first token", "first"), ("between tokens, mean", "gap"), ("longest step", "worst")):
        assert cells(page, name) == [ms(getattr(times, field)) for times in (one, two)]
    assert cells(page, "cards: prefill + decode") == ["all 8", f"{two.cards} + {CARDS - two.cards}"]
    assert shown(page, "keys and values sent") == "1 GiB a request" and shown(page, "of it not hidden") == ms(
        sent.exposed
    )
    assert shown(page, "break-even") == f"{three(widget.break_even())} Gb/s"
    assert verdict(page).startswith("The split is done sooner")


def test_a_slow_link_turns_the_answer_by_keyboard(mount):
    page = mount(PlacePhases())
    link = page.get_by_role("slider", name="link")
    before = shown(page, "break-even")
    link.press("ArrowLeft")
    assert page.evaluate("model.get('gbit')") == 25 and link.get_attribute("aria-valuetext") == "25 Gb/s"
    assert verdict(page).startswith("On this link shared cards are done sooner") and shown(page, "break-even") == before
    link.press("Home")
    assert shown(page, "link of a prefill card") == "more than full" and "times as fast" in verdict(page)


def test_a_step_that_fits_turns_the_answer_to_shared_cards(mount):
    page = mount(PlacePhases(rate=24))
    assert verdict(page).startswith("The split is done sooner")
    step = page.get_by_role("slider", name="shared: a step of")
    step.press("ArrowLeft")
    step.press("ArrowLeft")
    assert page.evaluate("model.get('budget')") == 160 and step.get_attribute("aria-valuetext") == "160 tokens"
    assert verdict(page).startswith("Shared cards are done sooner, and no link would change that")


def test_a_cached_prefix_is_neither_computed_nor_sent(mount):
    page = mount(PlacePhases())
    page.get_by_role("slider", name="in the cache").press("End")
    assert page.evaluate("model.get('found')") == 90
    assert PlacePhases(found=90).split()[1].nbytes == (2048 - 1843) * PlacePhases().clock.kv_bytes
    assert shown(page, "keys and values sent") == "103 MiB a request"


def test_what_cannot_keep_up_is_said(mount):
    page = mount(PlacePhases(prompt=32768, rate=64))
    assert verdict(page).startswith("Neither placement keeps up") and cells(page, "last token") == ["–", "–"]
    assert page.locator("svg[role=img]").get_by_text("cannot keep up").count() == 2


@pytest.mark.parametrize("first", sampled([300, 305, 310, 315, 320, 325], now=[300]))
def test_every_setting_is_told_truly(mount, first):
    page = mount(PlacePhases())
    for seed in range(first, first + 5):
        widget = random_widget(seed)
        for name in ("model", "card", *VALUES):
            page.evaluate("([name, value]) => model.set(name, value)", [name, getattr(widget, name)])
        one, two, even, said = widget.shared(), widget.split(), widget.break_even(), verdict(page)
        if two is None:
            assert said.startswith("No split" if one else "Neither placement")
        elif two[1].load >= 1:
            assert "faster than its link takes them" in said
        elif one is None:
            assert said.startswith("Shared cards cannot keep up")
        elif even is None:
            assert "no link would change that" in said and two[0].last > one.last
        else:
            sooner = two[0].last <= one.last
            assert said.startswith("The split is done sooner" if sooner else "On this link") and sooner == (
                even <= widget.gbit
            )


def test_the_picture_has_a_part_for_each_layer_sent_after_it_is_computed(mount):
    widget = PlacePhases()
    page, (two, sent) = mount(widget), widget.split()
    lanes = "all => all.map((one) => ['x', 'width'].map((name) => Number(one.getAttribute(name))))"
    computed = page.locator("rect.prefill.layer").evaluate_all(lanes)
    links = page.locator("rect.sent.layer").evaluate_all(lanes)
    assert len(computed) == len(links) == widget.clock.shape.layers
    assert all(x + wide <= begin + 1e-6 for (x, wide), (begin, _) in zip(computed, links, strict=True))
    assert links[0][1] / computed[0][1] == pytest.approx(sent.seconds / two.prefill)


def test_the_picture_says_in_words_what_it_shows(mount):
    words = mount(PlacePhases()).get_by_role("img").get_attribute("aria-label")
    assert re.match(
        r"Shared cards: first token after [\d.]+ ms, last after [\d.]+ ms. Two pools: first token after", words
    )
    assert words.endswith("are not hidden.")


def test_all_of_it_says_that_it_is_modelled(mount):
    page = mount(PlacePhases())
    assert "no card was timed" in page.locator(".note").inner_text() and page.locator("thead").inner_text().startswith(
        "modelled"
    )


def test_the_keyboard_reaches_everything_in_order(mount):
    page = mount(PlacePhases())
    assert page.locator("#widget :is(input, select)[data-lm-suppress-shortcuts=true]").count() == 8
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.value"))
    assert reached == [
        "Llama 2 7B",
        "A100",
        "prompt",
        "output",
        "requests",
        "in the cache",
        "link",
        "shared: a step of",
    ]


@pytest.mark.parametrize("width", sampled([390, 560, 720, 1280], now=[]))
def test_moving_a_slider_moves_nothing_else(mount, width):
    page = mount(PlacePhases(), width=width)
    places = set()
    for name in ("prompt", "output", "requests", "in the cache", "link"):
        for key in ("Home", "End", "ArrowLeft"):
            page.get_by_role("slider", name=name).press(key)
            below = (page.locator(where).bounding_box() for where in ("svg[role=img]", ".below table", "dl", ".note"))
            places.add(tuple(round(box["y"]) for box in below))
    assert len(places) == 1, places


def test_without_a_script_question_picture_and_tables_stand_in_the_page():
    html, without = still_of(PlacePhases()).split("<noscript>")
    assert "Is it worth sending" in html and 'viewBox="0 0 640 190"' in html and "The split is done sooner" in html
    rows = re.findall(r"<th scope=\"row\"[^>]*>(.*?)</th>.*?<td>([^<]*)</td></tr>", without)
    settings = [*({"prompt": prompt} for prompt in VALUES["prompt"]), *({"found": found} for found in VALUES["found"])]
    settings += [{"budget": budget} for budget in VALUES["budget"]]
    assert len(rows) == len(settings)
    for (_, even), moved in zip(rows, settings, strict=True):
        expected = PlacePhases(**moved).break_even()
        assert even == ("–" if expected is None else f"{three(expected)} Gb/s"), moved


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(PlacePhases(), width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_role("slider", name="prompt").press("End")
    assert_accessible(page, width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"model": "Llama 2 70B"}, {"card": "T4"}, *({name: -1} for name in VALUES)):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} is one of"):
            PlacePhases(**wrong)
