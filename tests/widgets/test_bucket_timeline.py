"""Buckets on a link: the browser's times are Python's and those of E14.2's solution, and the U has its ends."""

import random
from dataclasses import asdict
from pathlib import Path

import pytest

from autograder.authoring.text import read_text_notebook
from autograder.notebooks.cells import solution_of
from gpulab.collectives.network.overlap import Link, overlap
from gpulab.widgets import BucketTimeline
from gpulab.widgets.bucket_timeline import POWERS
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

EXERCISES = Path(__file__).parents[2] / "exercises" / "data_parallel" / "notebook.py"
DRAWN = 200


javascript = functions_of("bucket_timeline/model.js")


@pytest.fixture(scope="module")
def best_bucket():
    """The exercise's own solution."""
    scope = {}
    exec(solution_of(read_text_notebook(EXERCISES), "best_bucket"), scope)
    return scope["best_bucket"]


def random_widget(seed):
    rng = random.Random(seed)
    layers, mib = rng.randint(2, 64), rng.choice([1, 3, 25, 1024])
    powers = {name: 2 ** rng.randint(*ends) for name, ends in POWERS.items()}
    return BucketTimeline(mib * rng.randint(1, layers), layers, mib, **powers)


def job(widget):
    moved = {name: getattr(widget, name) for name in ("layers", "layer_us", "alpha_us", "ranks")}
    nbytes = {"layer_bytes": widget.layer_mib << 20, "bucket_bytes": widget.bucket_mib << 20}
    return {**moved, **nbytes, "bytes_per_us": widget.gb_per_s * 1e3}


def test_the_browser_computes_pythons_times(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    for widget, found in zip(
        widgets, javascript("given.map(m.overlap)", [job(widget) for widget in widgets]), strict=True
    ):
        expected = widget.overlapped()
        assert [found[name] for name in ("backward_us", "step_us")] == [
            expected.backward_us,
            pytest.approx(expected.step_us, rel=1e-12),
        ]
        assert found["exposed_us"] == pytest.approx(expected.exposed_us, abs=1e-9 * expected.step_us)
        assert found["sent"] == [
            pytest.approx(asdict(one), rel=1e-9, abs=1e-9 * expected.step_us) for one in expected.sent
        ]


def test_the_browsers_u_is_the_one_of_the_exercise(javascript, best_bucket):
    widgets = [random_widget(seed) for seed in range(DRAWN, DRAWN + 60)]
    swept = (
        "given.map((one) => { const all = m.sweep(one); return [all.map((s) => s.step_us), m.shortest(all).step_us]; })"
    )
    found = javascript(swept, [job(widget) for widget in widgets])
    for widget, (steps, shortest) in zip(widgets, found, strict=True):
        one = job(widget)
        layers = [{"us": one["layer_us"], "bytes": one["layer_bytes"]}] * one["layers"]
        expected = best_bucket(layers, one, [one["layer_bytes"] * count for count in range(1, one["layers"] + 1)])
        assert steps == pytest.approx(list(expected["step_us"].values()), rel=1e-9)
        assert shortest == pytest.approx(expected["step_us"][expected["best"]], rel=1e-9)


def test_sizes_between_two_layers_fill_as_the_larger_does():
    link = Link(5, 100, 4)
    assert overlap(7, 3, 100, 201, link) == overlap(7, 3, 100, 300, link) != overlap(7, 3, 100, 200, link)
    assert [one.layers for one in overlap(7, 3, 100, 300, link).sent] == [3, 3, 1]
    assert overlap(7, 3, 100, 10**9, link).sent[0].layers == 7


def test_all_reduces_follow_one_another_and_wait_for_their_gradients():
    for seed in range(100):
        sent = random_widget(seed).overlapped().sent
        assert all(one.start_us >= one.ready_us - 1e-6 for one in sent)
        assert all(after.start_us >= before.end_us - 1e-6 for before, after in zip(sent, sent[1:], strict=False))


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_both_ends_are_slow_and_between_them_is_the_shortest(mount):
    page = mount(BucketTimeline())
    size, seen = page.get_by_role("slider", name="bucket size"), {}
    size.focus()
    for key in ("Home", "End"):
        page.keyboard.press(key)
        seen[key] = shown(page, "all is summed after")
    assert page.evaluate("model.get('bucket_mib')") == 24 and shown(page, "all-reduces") == "1"
    assert "all of its all-reduce is exposed" in page.locator(".verdict").inner_text()
    assert seen == {"Home": "1.49 ms", "End": "1.49 ms"} and shown(page, "best size") == "4 MiB, 1.01 ms"


def test_latency_moves_the_valley_to_larger_buckets_and_a_slow_pass_hides_small_ones(mount):
    page = mount(BucketTimeline())

    def valley():
        return int(shown(page, "best size").split()[0])

    page.get_by_role("slider", name="latency").press("Home")
    low = valley()
    page.get_by_role("slider", name="latency").press("End")
    assert low < valley() == 24
    assert "is latency" in page.locator(".verdict").inner_text()
    page.get_by_role("slider", name="latency").press("Home")
    page.get_by_role("slider", name="a layer takes").press("End")
    assert valley() == 1
    assert "Only the last bucket is exposed" in page.locator(".verdict").inner_text()


def test_a_slow_link_is_said_to_be_slow(mount):
    page = mount(BucketTimeline(bucket_mib=8, gb_per_s=1))
    assert "no size hides them" in page.locator(".verdict").inner_text()


def test_the_picture_says_in_words_what_it_shows(mount):
    page = mount(BucketTimeline())
    lanes, bend = (page.get_by_role("img").nth(i).get_attribute("aria-label") for i in (0, 1))
    assert (
        lanes.startswith("12 all-reduces. The backward pass ends after 768 µs")
        and "1.01 ms at best, with 4 MiB" in bend
    )
    assert page.locator("rect.layer").count() == 24 and page.locator("rect.sent").count() == 12


def test_layers_too_narrow_for_an_edge_have_none_and_stay_visible(mount):
    page = mount(BucketTimeline(16, layers=64, layer_mib=16, layer_us=64, alpha_us=64, ranks=16), width=390)
    assert page.locator("rect.layer.thin").count() == 64
    assert page.locator("rect.layer").first.evaluate("node => getComputedStyle(node).stroke") == "none"
    assert mount(BucketTimeline()).locator("rect.thin").count() == 0


def test_jupyterlab_leaves_the_keys_to_the_widget_and_a_change_from_python_is_drawn(mount):
    page = mount(BucketTimeline())
    assert (
        page.locator("#widget input").count() == page.locator("#widget [data-lm-suppress-shortcuts=true]").count() == 5
    )
    page.evaluate("model.set('bucket_mib', 24)")
    assert shown(page, "all-reduces") == "1"


def test_moving_a_slider_moves_nothing_else_on_a_phone(mount):
    page = mount(BucketTimeline(), width=390)
    size, heights = page.get_by_role("slider", name="bucket size"), set()
    for key in ("Home", "ArrowRight", "ArrowRight", "End"):
        size.press(key)
        heights.add(page.locator(".bend").bounding_box()["y"])
    assert len(heights) == 1


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(BucketTimeline(), width=width, scheme=scheme), width)


def test_what_the_sliders_cannot_hold_is_refused():
    for options in ({"alpha_us": 3}, {"gb_per_s": 1024}, {"ranks": 1}, {"layer_us": 0}):
        with pytest.raises(ValueError, match="is a power of two from"):
            BucketTimeline(**options)
    for options in ({"layers": 1}, {"layer_mib": 0}):
        with pytest.raises(ValueError, match="2 to 64 layers"):
            BucketTimeline(**options)
    for options in ({"bucket_mib": 25}, {"bucket_mib": 0}, {"bucket_mib": 3, "layer_mib": 2}):
        with pytest.raises(ValueError, match="a bucket holds 1 to"):
            BucketTimeline(**options)
    for wrong in ((-1, 1, 2), (0, 0, 2), (0, 1, 1)):
        with pytest.raises(ValueError, match="at least 2 ranks"):
            Link(*wrong)
    with pytest.raises(ValueError, match="layers of"):
        overlap(0, 1, 1, 1, Link(0, 1, 2))
