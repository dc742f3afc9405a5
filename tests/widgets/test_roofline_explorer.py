"""The roofline explorer: its counts are the virtual card's, its bounds gpulab.plots.roofline's."""

import random

import pytest

from gpulab.cuda import CARDS
from gpulab.plots.roofline import Point, attainable, bound, ridge
from gpulab.widgets import RooflineExplorer
from tests.sampling import in_seeds
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

OPERATIONS = ("chain", "fused", "linear")
FORMATS = ("fp32", "tf32", "fp16", "bf16")


javascript = functions_of("roofline_explorer/quiz.js")


def random_job(seed):
    rng = random.Random(seed)
    return RooflineExplorer(
        rng.choice(list(CARDS)),
        rng.choice(FORMATS),
        rng.choice(OPERATIONS),
        rows=2 ** rng.randint(0, 13),
        width=2 ** rng.randint(0, 14),
        steps=2 ** rng.randint(0, 7),
    )


def plain(widget):
    return {name: getattr(widget, name) for name in ("operation", "rows", "width", "steps", "fmt")}


@in_seeds(now=40, all=150)
def test_the_browser_counts_what_pytorch_launches_on_the_virtual_card(javascript, seeds):
    jobs = [job for job in map(random_job, seeds) if job.operation != "fused"]
    found = javascript("given.map((job) => m.work(job))", [plain(job) for job in jobs])
    assert {job.operation for job in jobs} == {"chain", "linear"}
    for job, work in zip(jobs, found, strict=True):
        kernels = job.observed()
        assert work["kernels"] == len(kernels), plain(job)
        assert work["flops"] == sum(kernel.flops for kernel in kernels), plain(job)
        assert work["bytes"] == sum(kernel.bytes_read + kernel.bytes_written for kernel in kernels), plain(job)


def test_a_fused_chain_is_counted_as_inductor_fuses_it(javascript):
    import torch

    from gpulab.kernels import fusion

    job = RooflineExplorer(operation="fused", fmt="fp32", rows=16, width=64, steps=4)
    watched = fusion.watch(lambda x: ((x * 2.0).relu() + 1.0).sigmoid())
    watched(torch.ones(16, 64))
    (call,) = watched.report.calls
    (work,) = javascript("given.map((job) => m.work(job))", [plain(job)])
    assert (work["kernels"], work["bytes"]) == (len(call.kernels), call.bytes) == (1, 2 * 16 * 64 * 4)


def test_the_browser_places_a_kernel_where_the_figure_does(javascript):
    jobs = [random_job(seed) for seed in range(300)]
    given = [{"job": plain(job), "card": job.cards[job.card]} for job in jobs]
    found = javascript(
        "given.map(({job, card}) => [m.roofOf(job), m.work(job), m.place(card, m.roofOf(job), m.work(job))])", given
    )
    bounds = set()
    for job, (roof, work, at) in zip(jobs, found, strict=True):
        card, point = CARDS[job.card], Point("job", int(work["flops"]), int(work["bytes"]), roof)
        assert at["bound"] == bound(card, point), plain(job)
        assert at["ridge"] == pytest.approx(ridge(card, roof), rel=1e-12)
        assert at["attainable"] == pytest.approx(attainable(card, point), rel=1e-12)
        assert at["us"] == pytest.approx(work["flops"] / attainable(card, point) * 1e6, rel=1e-12)
        bounds.add(at["bound"])
    assert bounds == {"memory", "compute"}


def test_a_quiz_asks_for_both_bounds_and_never_near_the_ridge(javascript):
    cards = RooflineExplorer().cards
    asked = javascript(
        "((random) => Array.from({length: 200}, () => m.question(given, random)))(m.generator(7))", cards
    )
    assert {question["at"]["bound"] for question in asked} == {"memory", "compute"}
    for question in asked:
        ratio = question["at"]["intensity"] / question["at"]["ridge"]
        assert max(ratio, 1 / ratio) >= 1.5


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_a_linear_layer_turns_from_memory_to_compute_as_rows_grow(mount):
    page = mount(RooflineExplorer("H100", "bf16", "linear", rows=1, width=4096))
    assert shown(page, "bound by") == "memory"
    page.get_by_role("slider", name="rows").focus()
    page.keyboard.press("End")
    assert page.evaluate("model.get('rows')") == 2**13
    assert shown(page, "bound by") == "compute"
    assert "fewer bytes" in page.locator(".verdict").inner_text()


def test_fusing_a_chain_divides_the_bytes_by_its_length(mount):
    page = mount(RooflineExplorer("A100", "fp32", "chain", rows=1024, width=1024, steps=8))
    assert (shown(page, "kernels"), shown(page, "memory moved")) == ("8", "67.1 MB")
    page.get_by_label("operation", exact=True).select_option("fused")
    assert (shown(page, "kernels"), shown(page, "memory moved")) == ("1", "8.39 MB")


def test_a_change_from_python_is_drawn(mount):
    page = mount(RooflineExplorer())
    page.evaluate("model.set('card', 'T4')")
    assert page.get_by_label("card").input_value() == "T4"


def test_the_quiz_says_why(mount):
    page = mount(RooflineExplorer(seed=3))
    page.get_by_text("Quiz:").click()
    page.get_by_role("button", name="memory").click()
    assert "the roofs meet at" in page.locator(".feedback").inner_text()
    assert "of 1 right" in page.locator(".quizmode .note").inner_text()
    assert page.get_by_role("button", name="memory").is_disabled()
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="memory").is_enabled()


def test_the_picture_says_in_words_what_it_shows(mount):
    page = mount(RooflineExplorer("H100", "bf16", "linear", rows=1))
    assert "bound by memory" in page.get_by_role("img").get_attribute("aria-label")


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(RooflineExplorer(seed=5), width=width, scheme=scheme)
    page.get_by_text("Quiz:").click()
    assert_accessible(page, width)


def test_what_the_sliders_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="power of two"):
        RooflineExplorer(rows=3)
    with pytest.raises(ValueError, match="no card"):
        RooflineExplorer("H99")
    with pytest.raises(ValueError, match="choose one"):
        RooflineExplorer(fmt="fp8")
