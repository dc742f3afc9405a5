"""Checkpointed segments: the browser's bytes are Python's, turn by turn, and what is said of a job is true of it."""

import math
import random

import pytest

from gpulab.memory.checkpoints import peak_bytes, recomputed_layers, segments_of
from gpulab.widgets import CheckpointSegments
from gpulab.widgets.checkpoint_segments import MIB, MOST_LAYERS
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

DRAWN = 150


javascript = functions_of("checkpoint_segments/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    layers, act = rng.choice([2, 3, MOST_LAYERS, rng.randint(2, MOST_LAYERS)]), rng.choice(MIB)
    segments = rng.choice([1, layers, layers // 2 + 1, rng.randint(1, layers)])
    ckpt = rng.choice([act, MIB[0], rng.choice([size for size in MIB if size <= act])])
    return CheckpointSegments(layers, segments, act, ckpt, rng.random() < 0.5)


def job(widget):
    nbytes = {"layer_bytes": widget.layer_mib << 20, "checkpoint_bytes": widget.checkpoint_mib << 20}
    return {"layers": widget.layers, "segments": widget.segments, "last": widget.last, **nbytes}


def arguments(widget, segments=None):
    return widget.layers, segments or widget.segments, widget.layer_mib << 20, widget.checkpoint_mib << 20, widget.last


def test_the_browser_holds_pythons_bytes_after_every_turn(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    for widget, turns in zip(
        widgets, javascript("given.map(m.passes)", [job(widget) for widget in widgets]), strict=True
    ):
        assert [(turn["phase"], turn["layer"], turn["held"]) for turn in turns] == widget.passes(), job(widget)
        segments = segments_of(widget.layers, widget.segments)
        assert all(turn["layer"] in segments[turn["segment"]] for turn in turns)


def test_the_browsers_curve_its_lowest_peak_and_what_runs_twice_are_pythons(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN, DRAWN + 40)]
    told = "given.map((job) => { const all = m.sweep(job); return [all, m.fewest(all), m.recomputed(m.passes(job)), m.valley(job)]; })"
    for widget, found in zip(widgets, javascript(told, [job(widget) for widget in widgets]), strict=True):
        peaks = {k: peak_bytes(*arguments(widget, k)) for k in range(1, widget.layers + 1)}
        best = min(peaks, key=peaks.get)
        rows = [{"segments": k, "held": held} for k, held in peaks.items()]
        valley = math.sqrt(widget.layers * widget.layer_mib / widget.checkpoint_mib)
        again = recomputed_layers(widget.layers, widget.segments, widget.last)
        assert found == [rows, rows[best - 1], again, pytest.approx(valley, rel=1e-12)], job(widget)


def test_what_is_held_is_what_the_boxes_show(javascript):
    """At every stop: a checkpoint for each mark, a layer's bytes for each full box, and a first box holds its own checkpoint."""
    widgets = [random_widget(seed) for seed in range(30)]
    told = "given.map((job) => { const turns = m.passes(job); return m.stops(turns).map((at) => [turns[at], m.chain(job, turns, at)]); })"
    for widget, moments in zip(widgets, javascript(told, [job(widget) for widget in widgets]), strict=True):
        _, _, act, ckpt, _ = arguments(widget)
        segments = segments_of(widget.layers, widget.segments)
        for turn, found in moments:
            full = [i for i, state in enumerate(found["layers"]) if state in ("kept", "recomputed")]
            own = sum(segments[i][0] in full for i in found["held"])
            assert turn["held"] == act * len(full) + ckpt * (len(found["held"]) - own), (job(widget), turn)
        assert set(moments[-1][1]["layers"]) == {"done"} and moments[-1][0]["held"] == 0 == len(moments[-1][1]["held"])


def test_the_peak_is_at_one_of_the_stops(javascript):
    given = [job(random_widget(seed)) for seed in range(DRAWN)]
    assert all(
        javascript(
            "given.map((job) => { const t = m.passes(job); return m.stops(t).includes(t.indexOf(m.peak(t))); })", given
        )
    )


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def counts(page):
    """The legend: how many layers are in each state, and how many checkpoints are held."""
    return page.locator(".legend > span").evaluate_all("all => all.map((one) => one.textContent.replace('◆ ', ''))")


def test_the_first_picture_is_that_of_the_peak(mount):
    page = mount(CheckpointSegments())
    assert counts(page) == ["to come: 0", "kept: 6", "dropped: 18", "recomputed: 0", "done: 0", "checkpoints: 3"]
    assert page.locator(".status").inner_text() == (
        "Forward pass of segment 4 of 4, layers 19 to 24: all that is saved is kept. Held: 432 MiB, the peak."
    )
    assert (shown(page, "peak"), shown(page, "no checkpointing")) == ("432 MiB, 28 %", "1536 MiB")
    assert (shown(page, "recomputed"), shown(page, "forward + backward")) == ("18 of 24 layers", "25 % more")
    assert (shown(page, "lowest peak"), shown(page, "√(n a / c)")) == ("304 MiB, k = 8", "9.8")


def test_the_reader_goes_through_the_step_segment_by_segment(mount):
    page = mount(CheckpointSegments())
    moment = page.get_by_role("slider", name="Moment")
    moment.press("Home")
    assert (
        counts(page)[:3] == ["to come: 18", "kept: 0", "dropped: 6"]
        and "its input is kept" in page.locator(".status").inner_text()
    )
    moment.press("End")
    assert counts(page)[4] == "done: 24" and page.locator(".status").inner_text().endswith("Held: 0 MiB.")
    page.get_by_role("button", name="Previous").click()
    assert (
        counts(page)[3] == "recomputed: 6"
        and "Recomputation of segment 1 of 4, layers 1 to 6" in page.locator(".status").inner_text()
    )
    assert page.locator("rect.layer.recomputed").count() == 6 and page.locator("polygon.checkpoint").count() == 3


def test_a_change_of_the_job_goes_back_to_its_peak(mount):
    page = mount(CheckpointSegments())
    page.get_by_role("slider", name="Moment").press("End")
    page.get_by_role("slider", name="segments, k").press("ArrowRight")
    assert page.locator(".status").inner_text().endswith("the peak.") and shown(page, "peak") == "576 MiB, 38 %"


def test_one_segment_is_no_checkpointing_and_as_many_as_layers_pay_for_their_checkpoints(mount):
    page = mount(CheckpointSegments(64, 8, 64, 64))
    assert "No k has a lower peak: 7 checkpoints, and a segment of 8 layers." in page.locator(".verdict").inner_text()
    segments = page.get_by_role("slider", name="segments, k")
    segments.press("Home")
    assert (
        "nothing is checkpointed" in page.locator(".verdict").inner_text()
        and shown(page, "recomputed") == "0 of 64 layers"
    )
    segments.press("End")
    assert (
        "Checkpoints are 98 % of the peak" in page.locator(".verdict").inner_text()
        and shown(page, "peak") == "4096 MiB, 100 %"
    )
    for _ in range(31):
        segments.press("ArrowLeft")
    assert (
        "Segments have 1 layer, the last takes what is left: its 32 layers are 50 % of the peak."
        in page.locator(".verdict").inner_text()
    )


def test_the_last_segments_own_checkpoint_costs_and_lowers_nothing(mount):
    page = mount(CheckpointSegments())
    before = shown(page, "peak")
    page.get_by_role("button", name="checkpoint the last segment too").click()
    assert shown(page, "peak") == before and shown(page, "forward + backward") == "33 % more"
    assert "adds the recomputation of 6 layers, and the peak is the same" in page.locator(".verdict").inner_text()
    assert counts(page)[3] == "recomputed: 6" and page.get_by_role("button", pressed=True).count() == 1


def test_sliders_end_where_the_job_ends(mount):
    page = mount(CheckpointSegments(24, 20, 64, 64))
    page.get_by_role("slider", name="layers, n").press("Home")
    assert page.evaluate("[model.get('layers'), model.get('segments')]") == [2, 2]
    page.get_by_role("slider", name="a layer saves, a").press("Home")
    assert page.evaluate("[model.get('layer_mib'), model.get('checkpoint_mib')]") == [2, 2]
    for name in ("segments, k", "a checkpoint, c"):
        page.get_by_role("slider", name=name).press("End")
    assert page.evaluate("[model.get('segments'), model.get('checkpoint_mib')]") == [2, 2]
    page.get_by_role("slider", name="layers, n").press("End")
    page.get_by_role("slider", name="segments, k").press("End")
    assert page.evaluate("model.get('segments')") == 64


def test_the_pictures_say_in_words_what_they_show(mount):
    page = mount(CheckpointSegments())
    boxes, through, curve = (page.get_by_role("img").nth(i).get_attribute("aria-label") for i in range(3))
    assert boxes == "Layers to come: 0, kept: 6, dropped: 18, recomputed: 0, done: 0; checkpoints held: 3."
    assert (
        through
        == "Held through the step: 432 MiB at the peak, 432 MiB now; 1536 MiB at the peak without checkpointing."
    )
    assert curve == "The peak is 432 MiB with 4 segments, and 304 MiB at its lowest, with 8."


def test_jupyterlab_leaves_the_keys_to_the_widget_and_a_change_from_python_is_drawn(mount):
    page = mount(CheckpointSegments())
    assert page.locator("#widget :is(input, button)[data-lm-suppress-shortcuts=true]").count() == 9
    page.evaluate("model.set('layers', 3)")
    assert (
        shown(page, "recomputed") == "2 of 3 layers"
        and page.get_by_role("slider", name="segments, k").input_value() == "2"
    )


def test_playing_ends_with_the_step_and_a_change_stops_it(mount):
    page = mount(CheckpointSegments(4, 2))
    page.get_by_role("slider", name="Moment").press("End")
    page.get_by_role("button", name="Play").click()
    assert page.get_by_role("button", name="Pause").count() == 1 and counts(page)[0] == "to come: 2"
    page.get_by_role("slider", name="layers, n").press("ArrowRight")
    assert page.get_by_role("button", name="Play").count() == 1


def test_moving_a_slider_moves_nothing_else_on_a_phone(mount):
    page = mount(CheckpointSegments(64, 5, 96, 6, last=True), width=390)
    places = set()
    for name, keys in (
        ("segments, k", ("Home", "ArrowRight", "End")),
        ("Moment", ("Home", "ArrowRight", "End", "ArrowLeft")),
    ):
        for key in keys:
            page.get_by_role("slider", name=name).press(key)
            places.add(tuple(page.locator(where).bounding_box()["y"] for where in (".through", ".curve", ".note")))
    assert len(places) == 1, places


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(CheckpointSegments(64, 33, 96, 6), width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_role("slider", name="Moment").press("End")
    page.get_by_role("button", name="Previous").click()
    assert_accessible(page, width)


def test_what_the_sliders_cannot_hold_is_refused():
    wrong = [
        ({"layers": 1}, "2 to 64 layers, not 1"),
        ({"layers": 65}, "2 to 64 layers, not 65"),
        ({"segments": 0}, "24 layers make 1 to 24 segments, not 0"),
        ({"segments": 25}, "24 layers make 1 to 24 segments, not 25"),
        ({"layer_mib": 65}, "layer_mib is one of 2, 3, 4, 6"),
        ({"checkpoint_mib": 1}, "checkpoint_mib is one of 2, 3, 4, 6"),
        ({"layer_mib": 64, "checkpoint_mib": 96}, "64 MiB hold no checkpoint of 96"),
    ]
    for options, words in wrong:
        with pytest.raises(ValueError, match=words):
            CheckpointSegments(**options)
