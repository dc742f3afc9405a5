"""A loader as stages: the browser's turns are Python's, and what is said of a job is true of it."""

import random

import pytest

from gpulab.feeding import PLACES, bounds, idle, rate, simulate
from gpulab.widgets import FeedingPipeline
from gpulab.widgets.feeding_pipeline import BATCHES, PACKED, UNEVEN_EVERY, VALUES
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 60
LOADER = ("workers", "prefetch", "cores", "overlap")


javascript = functions_of("feeding_pipeline/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    return FeedingPipeline(
        **{name: rng.choice(stops) for name, stops in VALUES.items()},
        place=rng.choice(PLACES),
        overlap=rng.random() < 0.5,
    )


def job(widget):
    moved = {name: getattr(widget, name) for name in VALUES}
    return {**moved, "parse": widget.parse / 100, "packed": PACKED, "place": widget.place, "overlap": widget.overlap}


def test_the_browser_moves_the_work_to_where_python_moves_it(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    for widget, found in zip(
        widgets, javascript("given.map((job) => m.placed(job, job.place))", [job(w) for w in widgets]), strict=True
    ):
        assert found == pytest.approx(vars(widget.stages), rel=1e-12), job(widget)


def test_the_browser_gives_each_batch_when_python_does(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    told = f"""given.map((job) => {{
        const turns = m.simulate(m.batchesOf(m.placed(job, job.place), job.uneven, {BATCHES}, {UNEVEN_EVERY}), job);
        return [turns, m.rate(turns), m.idle(turns)];
    }})"""
    for widget, (turns, reached, unused) in zip(widgets, javascript(told, [job(w) for w in widgets]), strict=True):
        own = simulate(widget.batches(), widget.loader)
        for found, turn in zip(turns, own, strict=True):
            assert found == pytest.approx(turn._asdict(), rel=1e-9, abs=1e-9), job(widget)
        assert (reached, unused) == pytest.approx((rate(own), idle(own)), rel=1e-9, abs=1e-9)


def test_the_browser_bounds_each_stage_as_python_does(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    told = "given.map((job) => m.bounds(m.placed(job, job.place), job).map(([name, value]) => [name, Number.isFinite(value) ? value : -1]))"
    for widget, found in zip(widgets, javascript(told, [job(w) for w in widgets]), strict=True):
        own = {
            name: -1 if value == float("inf") else value for name, value in bounds(widget.stages, widget.loader).items()
        }
        assert [name for name, _ in found] == list(own) and dict(found) == pytest.approx(own, rel=1e-12)


def shown(page, name):
    return page.locator(f'dt:text-is("{name}") + dd').inner_text()


def test_one_worker_more_helps_until_the_cores_are_used(mount):
    page = mount(FeedingPipeline(workers=1, cores=2, fetch=0))
    workers = page.get_by_role("slider", name="workers")
    assert (
        shown(page, "slowest stage") == "workers" and "one more worker helps" in page.locator(".verdict").inner_text()
    )
    for _ in range(2):
        workers.press("ArrowRight")
    before = float(shown(page, "reached").split()[0])
    assert shown(page, "slowest stage") == "cores" and "adds nothing" in page.locator(".verdict").inner_text()
    workers.press("ArrowRight")
    assert float(shown(page, "reached").split()[0]) == pytest.approx(before, rel=0.01)


def test_moving_the_decoder_moves_the_limit(mount):
    page = mount(FeedingPipeline(workers=8, cores=2))
    limits = []
    for place in PLACES:
        page.get_by_label("decode and augment").select_option(place)
        limits.append((shown(page, "slowest stage"), shown(page, "a core's work")))
    assert limits == [
        ("cores", "82.0 ms a batch"),
        ("cores", "62.0 ms a batch"),
        ("step", "30.2 ms a batch"),
        ("step", "0.200 ms a batch"),
    ]


def test_prefetch_moves_nothing_where_batches_are_alike_and_helps_where_one_is_slow(mount):
    page = mount(FeedingPipeline(workers=1, prefetch=1, decode=10, augment=0, fetch=5, step=30, uneven=8))
    prefetch, reached = page.get_by_role("slider", name="prefetch factor"), []
    assert "a larger prefetch factor helps" in page.locator(".verdict").inner_text()
    for _ in range(3):
        reached.append(float(shown(page, "reached").split()[0]))
        prefetch.press("ArrowRight")
    assert reached == sorted(reached) and reached[-1] > reached[0]
    page.get_by_role("slider", name="one in 8 takes").press("Home")
    even = shown(page, "reached")
    prefetch.press("End")
    assert shown(page, "reached") == even


def test_the_pictures_say_in_words_what_they_show(mount):
    page = mount(FeedingPipeline())
    lanes, bars = (page.get_by_role("img").nth(i).get_attribute("aria-label") for i in range(2))
    turns = simulate(FeedingPipeline().batches(), FeedingPipeline().loader)
    assert lanes.startswith(f"The first 12 batches take {round(turns[11].ended)} ms; for ")
    assert bars.startswith(
        "workers: 19.6 / s, cores: 97.6 / s, pinning: 500 / s, transfer: 250 / s, decoder: not used, step: 40.0 / s. Reached: 19."
    )


def test_without_a_script_each_place_is_told():
    text = still_of(FeedingPipeline(workers=8, cores=2))
    assert all(
        words in text
        for words in ("all in workers", "mixed decode, augment on the GPU", "hardware decoder, augment on the GPU")
    )


def test_moving_a_slider_moves_nothing_else_on_a_phone(mount):
    page = mount(FeedingPipeline(), width=390)
    places = set()
    for name in ("workers", "prefetch factor", "step", "one in 8 takes"):
        for key in ("Home", "ArrowRight", "End"):
            page.get_by_role("slider", name=name, exact=True).press(key)
            places.add(tuple(page.locator(where).bounding_box()["y"] for where in (".lanes", ".bars", ".verdict")))
    assert len(places) == 1, places


def test_a_change_from_python_is_drawn(mount):
    page = mount(FeedingPipeline())
    page.evaluate("model.set('workers', 0)")
    assert (
        shown(page, "slowest stage") == "all in turn"
        and page.get_by_role("slider", name="workers").input_value() == "0"
    )


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(
        mount(FeedingPipeline(workers=16, cores=3, place="mixed decode"), width=width, scheme=scheme), width
    )


def test_what_the_controls_cannot_hold_is_refused():
    for wrong, words in (
        ({"workers": 18}, "workers is one of 0, 1, 2"),
        ({"step": 0}, "step is one of 1, 2"),
        ({"place": "gpu"}, "place is one of"),
    ):
        with pytest.raises(ValueError, match=words):
            FeedingPipeline(**wrong)
