"""The timeline player: its layout is the Python timeline's; by keyboard, on a phone, with no kernel."""

import json
import random

import pytest
import torch

import gpulab.cuda
from gpulab import Observation, observe
from gpulab.observe import SourceLine
from gpulab.observe.records import Copy, Kernel, Race, Wait
from gpulab.plots.device import _lanes
from gpulab.plots.figure import WARNING
from gpulab.units import format_bytes
from gpulab.widgets import TimelinePlayer
from tests.widgets.looks import assert_accessible, imported, in_every_look

TIMELINES = 200


@pytest.fixture(scope="module")
def layout(browser):
    """layout(expression, argument): evaluates with the layout module in scope as `layout`."""
    with imported(browser, "timeline_player/layout.js", "layout") as evaluate:
        yield evaluate


def random_observation(rng):
    """Kernels on some streams, copies, waits and races, with lines that repeat and lines that lack."""
    lines = [SourceLine(f"/a/{n}.py", n, f"y{n} = x * {n}", "f") for n in range(3)] + [None]
    time = lambda: round(rng.uniform(0, 900), 3)

    def span():
        start = time()
        return start, start + rng.choice([0.0, 2.0, rng.uniform(1, 400)])

    kernels = [
        Kernel(
            rng.choice(["aten.mm", "aten.add", "spin_kernel"]), rng.randint(0, 12), *span(), 1, 1, 1, rng.choice(lines)
        )
        for _ in range(rng.randint(1, 12))
    ]
    copies = [
        Copy(
            rng.choice(["HtoD", "DtoH", "clone"]),
            "copy",
            rng.choice([0, 7, 1023, 1024, 5_000_000, 3 << 33]),
            None,
            True,
            0,
            *span(),
        )
        for _ in range(rng.randint(0, 4))
    ]
    waits = [Wait("cudaDeviceSynchronize", *span(), rng.choice(lines)) for _ in range(rng.randint(0, 3))]
    races = [
        Race("read after write", "aten.add", 0, rng.choice(lines), kernel.name, kernel.stream, kernel.line)
        for kernel in rng.sample(kernels, min(len(kernels), rng.randint(0, 2)))
    ]
    data = Observation.running().finish([], copies, 0, 0).to_dict()
    from dataclasses import asdict

    for name, records in (("kernels", kernels), ("waits", waits), ("races", races)):
        data[name] = [asdict(record) for record in records]
    return Observation.from_dict(json.loads(json.dumps(data | {"device": "a card, modelled"})))


def test_the_browsers_lanes_are_the_python_timelines(layout):
    rng = random.Random(5)
    observations = [random_observation(rng) for _ in range(TIMELINES)]
    there = layout(
        "all => all.map(t => layout.lanes(t).map(lane => [lane.name, lane.bars.map(b => [b.start, b.end, b.label, b.raced])]))",
        [TimelinePlayer(seen).timeline for seen in observations],
    )
    for seen, found in zip(observations, there, strict=True):
        expected = [
            [name, [[start, end, label, colour == WARNING] for start, end, label, colour in bars]]
            for name, bars in _lanes(seen).items()
        ]
        assert found == expected


def test_every_bar_is_one_step_in_order_of_time(layout):
    rng = random.Random(6)
    observations = [random_observation(rng) for _ in range(TIMELINES)]
    there = layout(
        "all => all.map(t => layout.steps(layout.lanes(t)).map(s => [s.start, s.end]))",
        [TimelinePlayer(seen).timeline for seen in observations],
    )
    for seen, found in zip(observations, there, strict=True):
        expected = [(start, end) for bars in _lanes(seen).values() for start, end, *_ in bars]
        assert sorted(map(tuple, found)) == sorted(expected)
        assert [start for start, _ in found] == sorted(start for start, _ in expected)


def test_the_step_of_a_race_is_its_second_use(layout):
    rng = random.Random(7)
    observations = [seen for seen in (random_observation(rng) for _ in range(TIMELINES)) if seen.races]
    there = layout(
        """all => all.map(t => { const steps = layout.steps(layout.lanes(t));
             return t.races.map(r => { const s = steps[layout.raceStep(steps, r)]; return [s.label, s.lane, s.raced]; }); })""",
        [TimelinePlayer(seen).timeline for seen in observations],
    )
    assert len(observations) > 50
    for seen, found in zip(observations, there, strict=True):
        for race, (label, lane, raced) in zip(seen.races, found, strict=True):
            stream = f"stream {race.second_stream}" if race.second_stream else "default stream"
            assert (label, lane, raced) == (race.second_op.removeprefix("aten."), stream, True)


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1280, 1331, 1536, 1792, 1 << 20, 5_000_000, 3 << 30, 7 << 41])
def test_bytes_read_as_in_python(layout, count):
    assert layout("count => layout.formatBytes(count)", count) == format_bytes(count)


@pytest.fixture(scope="module")
def race():
    """Two models on two streams, as the sources have them, and a wait at the end."""
    with gpulab.cuda.use("virtual:H100", quiet=True):
        x, pinned = torch.ones(64, 64, device="cuda"), torch.ones(64, 64).pin_memory()
        streams = [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()
        with observe() as seen:
            y = x * pinned.to("cuda", non_blocking=True)
            for stream in streams:
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(300_000)
                    y + 1
            torch.cuda.synchronize()
    return seen


def status(page):
    return page.locator(".status").inner_text()


def test_it_steps_by_keyboard(mount, race):
    page = mount(TimelinePlayer(race))
    assert status(page).startswith("Step 1 of 7, at 0.0 µs: 16.0 KiB starts, copy HtoD")
    assert "launched by y = x * pinned.to" in status(page)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("ArrowRight")
    assert status(page).startswith("Step 2 of 7") and "mul starts, default stream" in status(page)
    page.keyboard.press("End")
    assert "Step 7 of 7" in status(page) and page.evaluate("model.get('step')") == 7
    page.get_by_role("button", name="Previous").focus()
    page.keyboard.press("Enter")
    assert "Step 6 of 7" in status(page)


def test_it_says_what_is_under_way_at_the_same_moment(mount, race):
    page = mount(TimelinePlayer(race))
    while "spin_kernel starts, stream 2" not in status(page):
        page.get_by_role("button", name="Next").click()
    assert "Under way at that moment" in status(page) and "spin_kernel (stream 1)" in status(page)


def test_a_race_names_both_lines_and_leads_to_its_step(mount, race):
    page = mount(TimelinePlayer(race))
    assert len(race.races) == page.locator(".races li").count() == 2
    first = page.locator(".races li").first
    assert "read after write" in first.inner_text() and "y = x * pinned" in first.inner_text()
    first.get_by_role("button").click()
    assert "add starts, stream 1" in status(page)
    assert page.locator(".item.now.raced").count() == 1


def test_it_plays_to_the_end_and_stops(mount, race):
    page = mount(TimelinePlayer(race, step=6))
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("model.get('step') === 7")
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_role("button", name="Play").click()
    assert "Step 1 of 7" in status(page)
    page.get_by_role("button", name="Pause").click()


def test_a_click_on_a_bar_goes_there(mount, race):
    page = mount(TimelinePlayer(race))
    page.locator(".item", has_text="spin_kernel").last.click()
    assert "spin_kernel starts, stream 2" in status(page)


def test_python_moves_it(mount, race):
    page = mount(TimelinePlayer(race))
    page.evaluate("model.set('step', 3)")
    assert "Step 3 of 7" in status(page)


def test_bars_stand_where_their_times_say(mount, race):
    page = mount(TimelinePlayer(race))
    boxes = page.locator(".item", has_text="spin_kernel").evaluate_all(
        "nodes => nodes.map(n => { const b = n.getBoundingClientRect(), t = n.parentNode.getBoundingClientRect();"
        " return [(b.left - t.left) / t.width, b.width / t.width]; })"
    )
    spins = [k for k in race.kernels if k.name == "spin_kernel"]
    begin = min(record.start_us for records in (race.kernels, race.copies, race.waits) for record in records)
    total = max(record.end_us for records in (race.kernels, race.copies, race.waits) for record in records) - begin
    for kernel, (left, width) in zip(spins, boxes, strict=True):
        assert left == pytest.approx((kernel.start_us - begin) / total, abs=0.01)
        assert width == pytest.approx((kernel.end_us - kernel.start_us) / total, abs=0.01)


def test_no_path_of_this_machine_is_in_the_page(race):
    assert __file__ not in json.dumps(TimelinePlayer(race).timeline)


@in_every_look
def test_axe_finds_nothing(mount, race, scheme, width):
    page = mount(TimelinePlayer(race), width=width, scheme=scheme)
    page.locator(".races button").first.click()
    assert_accessible(page, width)


def test_nothing_to_replay_is_refused():
    with observe() as seen:
        torch.ones(2)
    with pytest.raises(ValueError, match="nothing to replay"):
        TimelinePlayer(seen)


def test_a_timeline_too_long_to_step_through_is_refused(race):
    data = race.to_dict()
    data["kernels"] = data["kernels"] * 100
    with pytest.raises(ValueError, match="too many to step through"):
        TimelinePlayer(Observation.from_dict(data))


def test_a_step_that_is_not_there_is_refused(race):
    with pytest.raises(ValueError, match="step 8 of 7"):
        TimelinePlayer(race, step=8)
