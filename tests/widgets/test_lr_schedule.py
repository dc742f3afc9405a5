"""The learning rate: the browser's rates are those of PyTorch's own schedulers, in loops that count rightly and wrongly."""

import random
import warnings

import pytest
import torch
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

from gpulab.widgets import LrSchedule
from gpulab.widgets.lr_schedule import LOOPS, PEAKS, PERCENTS, SHAPES
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, options_on_a_page, still_of

javascript = functions_of("lr_schedule/model.js")


def random_job(seed: int) -> dict:
    rng = random.Random(seed)
    chosen = {
        name: rng.choice(list(some))
        for name, some in {"peak": PEAKS, "shape": SHAPES, "loop": LOOPS, **PERCENTS}.items()
    }
    return chosen | {"total": rng.choice([60, 100, 200])}


def scheduler(job: dict):
    """PyTorch's own, and the optimizer that it drives."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=job["peak"])
    warm, total = round(job["warm_up"] / 100 * job["total"]), job["total"]
    floor = job["floor"] / 100
    match job["shape"]:
        case "cosine":
            parts, joints = [CosineAnnealingLR(optimizer, total - warm, eta_min=floor * job["peak"])], []
        case "linear":
            parts, joints = [LinearLR(optimizer, 1.0, floor, total_iters=total - warm)], []
        case _:
            begin = round(0.8 * total)
            parts = [ConstantLR(optimizer, 1.0), LinearLR(optimizer, 1.0, floor, total_iters=total - begin)]
            joints = [begin]
    if warm:
        parts, joints = [LinearLR(optimizer, 1 / (warm + 1), total_iters=warm), *parts], [warm, *joints]
    return SequentialLR(optimizer, parts, joints), optimizer


def by_pytorch(job: dict) -> list[float]:
    """The rate of each optimizer step."""
    total, micro = job["total"], 4 if job["loop"] == "micro-batches" else 1
    schedule, optimizer = scheduler(job)
    rates = []
    for step in range(int(1.25 * total) if job["loop"] == "longer" else total):
        if job["loop"] == "restart" and step == total // 2:
            schedule, optimizer = scheduler(job)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for _ in range(micro):
            schedule.step()
    return rates


@pytest.mark.filterwarnings("ignore")
def test_the_browsers_rates_are_pytorchs(javascript):
    jobs = [random_job(seed) for seed in range(80)]
    assert {job["loop"] for job in jobs} == set(LOOPS) and {job["shape"] for job in jobs} == set(SHAPES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [by_pytorch(job) for job in jobs]
    for job, found, right in zip(jobs, javascript("given.map((job) => m.rates(job))", jobs), expected, strict=True):
        assert found == pytest.approx(right, rel=1e-6, abs=1e-9 * job["peak"]), job


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_the_peak_is_at_the_end_of_the_warm_up(mount):
    page = mount(LrSchedule())
    assert shown(page, "highest") == "3e-4 in step 50"
    page.get_by_role("slider", name="warm-up").press("End")
    assert shown(page, "highest") == "3e-4 in step 200"
    page.get_by_role("slider", name="warm-up").press("Home")
    assert shown(page, "first step") == "3e-4"


@pytest.mark.parametrize(
    "loop, words",
    [
        ("micro-batches", "over after a quarter"),
        ("restart", "warms up again"),
        ("longer", "goes up again"),
        ("right", "where the warm-up ends"),
    ],
)
def test_each_loop_says_what_it_comes_to(mount, loop, words):
    page = mount(LrSchedule())
    page.get_by_label("loop").select_option(loop)
    assert words in page.locator(".verdict").inner_text()


def test_a_line_stays_at_its_floor_where_a_cosine_goes_up(mount):
    page = mount(LrSchedule(loop="longer"))
    page.get_by_label("decay").select_option("linear")
    assert "stays at its floor" in page.locator(".verdict").inner_text() and shown(page, "last step") == "3e-5"


def test_a_page_offers_shapes_and_loops_in_their_order():
    assert options_on_a_page(LrSchedule(), "decay") == list(SHAPES.values())
    assert options_on_a_page(LrSchedule(), "loop") == list(LOOPS.values())


def test_it_is_drawn_without_a_script():
    assert "<polyline" in still_of(LrSchedule())


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(LrSchedule(loop="restart"), width=width, scheme=scheme), width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"peak": 1.0}, {"warm_up": 3}, {"floor": 99}, {"shape": "step"}, {"loop": "none"}):
        with pytest.raises(ValueError, match="is one of"):
            LrSchedule(**wrong)
