"""Batch slots: the browser plays what gpulab.serving's engine plays, step by step, and what is said of it is true."""

import random
import re

import pytest

from gpulab.serving import Linear, Request
from gpulab.serving.schedulers.named import SCHEDULERS
from gpulab.widgets import BatchSlots
from gpulab.widgets.batch_slots import CLOCK, SLOTS, VALUES
from gpulab.widgets.batch_slots.played import play
from tests.sampling import sampled
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 60


javascript = functions_of("batch_slots/model.js")


def random_job(seed):
    """Requests, tokens of a step, slots, a clock; ties among arrivals, pauses, outputs of one token, fewer tokens than slots."""
    rng = random.Random(seed)
    spread, longest = rng.choice([0, 50, 400, 4_000]), rng.choice([4, 40, 300])
    slots = rng.randint(1, 6)
    requests = [
        Request(
            str(number),
            1000.0 * rng.randint(0, spread),
            rng.randint(1, longest),
            rng.choice([1, 2, rng.randint(1, 40)]),
        )
        for number in range(rng.randint(1, 14))
    ]
    tokens = rng.choice([rng.randint(1, slots), rng.randint(slots, 2 * longest + slots)])
    return requests, tokens, slots, Linear(rng.randint(0, 20_000), rng.randint(1, 300))


def given(requests, tokens, slots, clock):
    told = [{"arrival": one.arrival_us, "prompt": one.prompt, "writes": one.most} for one in requests]
    return {"requests": told, "tokens": tokens, "slots": slots, "clock": {"step": clock.step, "token": clock.token}}


def assert_alike(found, expected):
    names = ("slot", "request", "kind", "tokens", "begin", "us")
    assert [tuple(span[name] for name in names) for span in found["spans"]] == [tuple(span) for span in expected.spans]
    assert found["makespan"] == expected.makespan_us and found["gap"] == expected.gap_us
    assert (found["idle"], found["ttft"]) == pytest.approx((expected.idle, expected.ttft_us), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("policy", SCHEDULERS)
def test_the_browser_plays_what_the_engine_plays(javascript, policy):
    jobs = [random_job(seed) for seed in range(DRAWN)]
    found = javascript(f"given.map((job) => m.play('{policy}', job))", [given(*job) for job in jobs])
    kinds = set()
    for job, played in zip(jobs, found, strict=True):
        expected = play(policy, *job)
        assert_alike(played, expected)
        kinds |= {span.kind for span in expected.spans}
    assert kinds == {"prefill", "decode"} | ({"stalled"} if policy == "static" else set())


def test_every_stop_of_the_sliders_makes_the_same_requests(javascript):
    widget = BatchSlots()
    stops = [(unequal, spacing) for unequal in VALUES["unequal"] for spacing in VALUES["spacing_ms"]]
    found = javascript(
        "given.stops.map(([u, s]) => m.requestsOf(given.known, u, s))", {"known": widget.known, "stops": stops}
    )
    for (unequal, spacing), requests in zip(stops, found, strict=True):
        expected = BatchSlots(unequal=unequal, spacing_ms=spacing).requests
        assert requests == given(expected, 1, 1, CLOCK)["requests"]
        assert sum(one.most for one in expected) == 160, "a slider moves the spread, not the work"


def test_the_longest_gap_is_where_it_is_drawn(javascript):
    jobs = [random_job(seed) for seed in range(DRAWN, DRAWN + 20)]
    found = javascript("given.map((job) => m.play('static', job))", [given(*job) for job in jobs])
    for played in filter(lambda one: one["gap"], found):
        worst = played["worst"]
        ends = {(span["slot"], span["begin"] + span["us"]) for span in played["spans"]}
        assert (
            worst["to"] - worst["from"] == played["gap"]
            and {(worst["slot"], worst[name]) for name in ("from", "to")} <= ends
        )


def cells(page, name):
    line = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").all_inner_texts()


def shown(widget, policy):
    expected = widget.play(policy)
    times = (expected.makespan_us, expected.gap_us, expected.ttft_us)
    return [f"{100 * expected.idle:.0f} %", *(f"{int(us / 1000 + 0.5)} ms" for us in times)]


def verdict(page):
    return page.locator(".verdict").inner_text()


@pytest.mark.parametrize("moved", [{}, {"tokens": 16, "unequal": 4}, {"tokens": 512, "unequal": 0, "spacing_ms": 200}])
def test_the_table_is_the_engines_report(mount, moved):
    widget = BatchSlots(**moved)
    page = mount(widget)
    for policy in SCHEDULERS:
        assert cells(page, policy) == shown(widget, policy)


def test_static_waits_for_its_longest_and_chunks_bound_the_gap(mount):
    widget = BatchSlots()
    late, soon, cut = (widget.play(policy) for policy in SCHEDULERS)
    assert late.makespan_us > 1.3 * soon.makespan_us and late.idle > 2 * soon.idle and cut.gap_us < soon.gap_us / 2
    page = mount(widget)
    assert "is taken in the next step" in verdict(page)
    assert "With chunks no step computes more than 64 tokens: the longest gap is 23 ms" in verdict(page)


def test_budget_by_keyboard(mount):
    page = mount(BatchSlots())
    budget = page.get_by_role("slider", name="token budget")
    before = cells(page, "continuous")
    budget.press("Home")
    assert page.evaluate("model.get('tokens')") == 16 and cells(page, "chunked") == shown(
        BatchSlots(tokens=16), "chunked"
    )
    assert cells(page, "continuous") == before, "whole prompts have room whatever the slider says"
    budget.press("End")
    assert cells(page, "chunked") == cells(page, "continuous") and "chunks change nothing" in verdict(page)


@pytest.mark.parametrize("seed", sampled([3, 4, 5], now=[3]))
def test_every_setting_is_told_truly(javascript, mount, seed):
    page = mount(BatchSlots())
    rng = random.Random(seed)
    for _ in range(8):
        moved = {name: rng.choice(stops) for name, stops in VALUES.items()}
        for name, value in moved.items():
            page.evaluate(f"model.set('{name}', {value})")
        late, soon, cut = (BatchSlots(**moved).play(policy) for policy in SCHEDULERS)
        said = verdict(page)
        assert ("is taken in the next step" in said) == (late.makespan_us > soon.makespan_us), moved
        if "With chunks no step" in said:
            assert cut.gap_us < soon.gap_us and ("The price" in said) == (cut.ttft_us - soon.ttft_us >= 500), moved
        elif "Chunks fill each step" in said:
            assert cut.gap_us > soon.gap_us, moved
        else:
            assert "chunks change nothing" in said and cut.gap_us == pytest.approx(soon.gap_us, abs=1000), moved


def test_the_picture_has_a_bar_for_each_span_and_frames_each_longest_gap(mount):
    widget = BatchSlots()
    page = mount(widget)
    plays = [widget.play(policy) for policy in SCHEDULERS]
    for kind in ("prefill", "decode", "stalled"):
        assert page.locator(f"rect.{kind}").count() == sum(
            span.kind == kind for played in plays for span in played.spans
        )
    assert page.locator("rect.worst").count() == 3 and page.locator("text.letter").count() == 24
    wide = page.locator("rect.worst").evaluate_all("all => all.map((one) => Number(one.getAttribute('width')))")
    gaps = [played.gap_us for played in plays]
    assert [one / wide[0] for one in wide] == pytest.approx([gap / gaps[0] for gap in gaps])


def test_no_slot_holds_two_at_once(mount):
    page = mount(BatchSlots(unequal=4, spacing_ms=40))
    boxes = page.locator("rect.prefill, rect.decode, rect.stalled").evaluate_all(
        "all => all.map((one) => ['x', 'y', 'width'].map((name) => Number(one.getAttribute(name))))"
    )
    rows = {y: sorted((x, width) for x, high, width in boxes if high == y) for _, y, _ in boxes}
    assert len(rows) == 3 * SLOTS
    for row in rows.values():
        assert all(x + width <= after + 1e-6 for (x, width), (after, _) in zip(row, row[1:], strict=False))


def test_the_picture_says_in_words_what_it_shows(mount):
    words = mount(BatchSlots()).get_by_role("img").get_attribute("aria-label")
    assert re.fullmatch(
        r"4 slots over time\.( \w+: slots \d+ % idle, done after \d+ ms, longest gap \d+ ms[;.]){3}", words
    )


def test_all_of_it_says_that_it_is_modelled(mount):
    page = mount(BatchSlots())
    assert (
        page.locator("caption").inner_text() == "Modelled" and "no card's numbers" in page.locator(".note").inner_text()
    )


def test_the_keyboard_reaches_everything_in_order(mount):
    page = mount(BatchSlots())
    assert page.locator("#widget input[data-lm-suppress-shortcuts=true]").count() == 3
    reached = []
    for _ in range(3):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel"))
    assert reached == ["token budget", "outputs", "an arrival"]


@pytest.mark.parametrize("width", sampled([390, 560, 720, 1280], now=[]))
def test_moving_a_slider_moves_nothing_else(mount, width):
    page = mount(BatchSlots(), width=width)
    places = set()
    for name in ("token budget", "outputs", "an arrival"):
        for key in ("Home", "End", "ArrowLeft"):
            page.get_by_role("slider", name=name).press(key)
            below = (page.locator(where).bounding_box() for where in ("svg[role=img]", "table", ".note"))
            places.add(tuple(box["y"] for box in below))
    assert len(places) == 1, places


def test_without_a_script_question_picture_and_tables_stand_in_the_page():
    html, without = still_of(BatchSlots()).split("<noscript>")
    assert (
        "Where do slots stand empty" in html
        and 'viewBox="0 0 640 326"' in html
        and "Static batching is done after" in html
    )
    rows = re.findall(r"<th scope=\"row\"[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", without)
    assert len(rows) == len(VALUES["unequal"]) + len(VALUES["tokens"])
    for unequal, (_, idle) in zip(VALUES["unequal"], rows, strict=False):
        assert idle == shown(BatchSlots(unequal=unequal), "static")[0]
    for tokens, (name, gap) in zip(VALUES["tokens"], rows[len(VALUES["unequal"]) :], strict=True):
        assert (name, gap) == (str(tokens), shown(BatchSlots(tokens=tokens), "chunked")[2])


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(BatchSlots(), width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_role("slider", name="outputs").press("End")
    assert_accessible(page, width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"tokens": 63}, {"unequal": 5}, {"spacing_ms": -1}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} is one of"):
            BatchSlots(**wrong)
