"""The loss scale: the browser's loops do what PyTorch's GradScaler and optimizers do."""

import random

import pytest
import torch

from gpulab.widgets import LossScale
from gpulab.widgets.loss_scale import LOOPS
from tests.sampling import in_seeds
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

javascript = functions_of("loss_scale/model.js")


def random_job(seed):
    rng = random.Random(seed)
    return LossScale(
        init=rng.randint(0, 24),
        interval=rng.choice([1, 2, 3, 7, 20, 100]),
        peak=rng.randint(-30, 10),
        spikes=rng.sample(range(60), rng.choice([0, 0, 1, 4])),
        loop=rng.choice(list(LOOPS)),
        steps=60,
    )


def plain(job):
    return {name: getattr(job, name) for name in ("init", "interval", "peak", "spikes", "loop", "steps", "half")}


def run(job):
    """The loop with PyTorch's own scaler and SGD: a dictionary a step, as the browser's."""
    weight = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    made = dict(init_scale=2.0**job.init, growth_interval=job.interval, enabled=job.loop != "none")
    scaler, told = torch.amp.GradScaler("cpu", **made), []
    for step in range(job.steps):
        if job.loop == "fresh":
            scaler = torch.amp.GradScaler("cpu", **made)
        optimizer.zero_grad()
        factor = 2.0**job.peak
        scaler.scale(weight * factor).backward()
        weight.grad = (
            torch.tensor(float("inf")) if step in job.spikes else weight.grad.half().float()
        )  # as fp16 leaves it
        scale, before = scaler.get_scale(), weight.item()
        if job.loop == "clip":
            torch.nn.utils.clip_grad_norm_([weight], 1.0)
        try:
            (optimizer if job.loop == "optimizer" else scaler).step(*(() if job.loop == "optimizer" else (optimizer,)))
        except RuntimeError as error:
            told.append({"scale": scale, "moved": 0.0, "sound": True, "error": str(error)})
            break
        if job.loop in ("right", "clip"):
            scaler.update()
        moved = before - weight.item()
        told.append({"scale": scale, "moved": moved, "sound": bool(weight.isfinite())})
        with torch.no_grad():  # so that the next step is seen whole
            weight.masked_fill_(weight.isfinite(), 0)
    return told


@in_seeds(now=30, all=150)
def test_the_browsers_loops_do_what_pytorchs_do(javascript, seeds):
    jobs = [random_job(seed) for seed in seeds]
    assert {job.loop for job in jobs} == set(LOOPS)
    found = javascript(
        "given.map((job) => m.simulate(job).map((one) => ({ ...one, applied: String(one.applied) })))",
        [plain(job) for job in jobs],
    )
    skipped = broken = 0
    for job, steps in zip(jobs, found, strict=True):
        right = run(job)
        assert len(steps) == len(right), plain(job)
        for one, other in zip(steps, right, strict=True):
            assert (one["scale"], one["sound"], one.get("error")) == (
                other["scale"],
                other["sound"],
                other.get("error"),
            ), plain(job)
            if one["applied"] == "null":
                assert other["moved"] == 0
                skipped += 1
            elif one["sound"]:
                assert float(one["applied"]) == pytest.approx(other["moved"], rel=1e-5, abs=0), plain(job)
        broken += not steps[-1]["sound"]
    assert skipped > 100 and broken > 1


def test_the_rule_is_pytorchs_at_its_default_interval(javascript):
    state = javascript(
        "(() => { let s = {scale: 65536, clean: 0}; for (let i = 0; i < 2000; i++) s = m.updated(s, false, 2000); return s; })()",
        None,
    )
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for _ in range(2000):
        optimizer.zero_grad()
        scaler.scale(weight * 1.0).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == state["scale"] == 2**17


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_the_scale_rises_to_the_ceiling_and_falls_again(mount):
    page = mount(LossScale(init=16, interval=5, peak=-4, spikes=[], steps=100))
    assert "of 100 steps are skipped, and the weights stay sound" in page.locator(".verdict").inner_text()
    assert int(shown(page, "skipped")) == page.locator(".skipped").count() > 3


@pytest.mark.parametrize(
    "loop, words",
    [
        ("no update", "PyTorch stops in step 1"),
        ("optimizer", "Step 70 writes an infinity"),
        ("none", "Step 70 writes"),
        ("right", "stay sound"),
    ],
)
def test_each_loop_says_what_it_comes_to(mount, loop, words):
    page = mount(LossScale())
    page.get_by_label("loop").select_option(loop)
    assert words in page.locator(".verdict").inner_text()


def test_a_new_scaler_in_every_step_learns_nothing_and_says_nothing(mount):
    page = mount(LossScale(init=20, peak=0, loop="fresh"))
    assert "Every step is skipped" in page.locator(".verdict").inner_text()


def test_clipping_before_unscaling_shrinks_the_step_by_the_scale(mount):
    page = mount(LossScale(init=16, interval=100, peak=-4, spikes=[], loop="clip", steps=20))
    assert shown(page, "applied of the true gradient") == "0.000244 of it"  # 1 / 65536 of a gradient of 1 / 16


def test_bad_batches_are_typed_or_clicked(mount):
    page = mount(LossScale(spikes=[], interval=100))
    box = page.get_by_label("bad batches")
    box.fill("3, 9 9 4000")
    box.press("Enter")
    assert page.evaluate("model.get('spikes')") == [3, 9] and shown(page, "skipped") == "2"
    picture = page.get_by_role("img")
    picture.click(position={"x": picture.bounding_box()["width"] / 2, "y": 60})
    assert len(page.evaluate("model.get('spikes')")) == 3


def test_the_sliders_move_by_keyboard(mount):
    page = mount(LossScale(init=4))
    page.get_by_role("slider", name="first scale").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('init')") == 5


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(LossScale(loop="optimizer"), width=width, scheme=scheme)
    assert_accessible(page, width)


def test_what_the_sliders_cannot_hold_is_refused():
    for options in ({"init": 25}, {"interval": 0}, {"peak": 11}, {"steps": 5}):
        with pytest.raises(ValueError, match="is from"):
            LossScale(**options)
    with pytest.raises(ValueError, match="a loop is one of"):
        LossScale(loop="both")
