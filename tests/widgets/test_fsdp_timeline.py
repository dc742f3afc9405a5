"""One step of FSDP: collectives and memory are those of fully_shard, the browser counts as Python does, and it can be stepped."""

import warnings
from dataclasses import asdict

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from gpulab.collectives import run_ranks
from gpulab.widgets import FsdpTimeline
from gpulab.widgets.fsdp_timeline import UNITS
from gpulab.widgets.fsdp_timeline.schedule import events, live, moments, sent
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

SWITCHES = [(reshard, prefetch) for reshard in (True, False) for prefetch in (True, False)]
WIDTHS = [8, 16, 24, 32, 40]
UNIT_OF = {4 * rows * columns: unit for unit, (rows, columns) in enumerate(zip(WIDTHS, WIDTHS[1:], strict=False))}
"""The units of a model whose layers differ in their bytes."""


javascript = functions_of("fsdp_timeline/model.js")


def a_step_of_fully_shard(rank, world, reshard, prefetch):
    warnings.simplefilter("ignore")
    model = torch.nn.Sequential(
        *[torch.nn.Linear(*pair, bias=False) for pair in zip(WIDTHS, WIDTHS[1:], strict=False)]
    ).cuda()
    for layer in model:
        fully_shard(layer, reshard_after_forward=reshard)
        if not prefetch:
            layer.set_modules_to_backward_prefetch([layer])
    fully_shard(model, reshard_after_forward=reshard)
    x = torch.ones(4, WIDTHS[0], device="cuda")
    for _ in range(2):
        model.zero_grad()
        dist.barrier(device_ids=[0])
        model(x).sum().backward()


@pytest.mark.parametrize(("reshard", "prefetch"), SWITCHES)
def test_collectives_come_in_the_order_of_fully_shard(reshard, prefetch):
    journal = run_ranks(a_step_of_fully_shard, 2, args=(reshard, prefetch)).journal
    last = max(i for i, entry in enumerate(journal) if entry.operation == "barrier")
    found = [(entry.operation, UNIT_OF[entry.bytes]) for entry in journal[last + 1 :]]
    assert found == [send for event in events(UNITS, reshard, prefetch) for send in event.sends]


def allocated_by_fully_shard(rank, world, reshard):
    """Between the passes, at most in the backward pass, and after it; in units of weights, of which there are as many."""
    warnings.simplefilter("ignore")
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(UNITS)]).cuda()
    for layer in [*model, model]:
        fully_shard(layer, reshard_after_forward=reshard)
    loss = model(torch.ones(1, 1024, device="cuda")).sum()
    torch.cuda.synchronize()
    between = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss.backward()
    torch.cuda.synchronize()
    return [
        nbytes / (4 << 20) for nbytes in (between, torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
    ]


@pytest.mark.parametrize("reshard", [True, False])
def test_the_backward_pass_holds_what_fully_shard_allocates_on_the_virtual_card(reshard):
    held = [live(moment, UNITS, 2) for moment in moments(UNITS, reshard, prefetch=True)]
    turn = next(i for i, moment in enumerate(moments(UNITS, reshard, prefetch=True)) if moment.replica)
    between = UNITS / 2 + (0 if reshard else UNITS)
    found = run_ranks(allocated_by_fully_shard, 2, args=(reshard,)).results[0]
    assert found == pytest.approx([between, max(held[turn:]), held[-1]], rel=0.01)


@pytest.mark.parametrize(("reshard", "prefetch"), SWITCHES)
@pytest.mark.parametrize("units", [1, 2, 4, 7])
def test_a_unit_is_whole_when_it_is_computed_and_sharded_in_the_end(units, reshard, prefetch):
    found = moments(units, reshard, prefetch)
    computed = [moment for moment in found if moment.event.compute and moment.event.compute[1] >= 0]
    assert all(moment.event.compute[1] in moment.whole for moment in computed)
    assert [moment.event.compute[1] for moment in computed] == [*range(units), *reversed(range(units))]
    assert all(moment.event.compute[1] not in (unit for _, unit in moment.event.sends) for moment in computed)
    last = found[-1]
    assert (last.whole, last.gradients, last.summed, last.replica) == ((), (), tuple(range(units)), units)
    assert max(len(moment.whole) for moment in found) <= (1 + prefetch if reshard else units)
    assert max(len(moment.gradients) for moment in found) <= 1 + prefetch


def test_fsdp_sends_three_models_and_two_where_nothing_is_gathered_again():
    for ranks in (2, 3, 4):
        for reshard, prefetch in SWITCHES:
            assert sent(moments(UNITS, reshard, prefetch), ranks) == pytest.approx(
                (2 + reshard) * UNITS * (ranks - 1) / ranks
            )
    with pytest.raises(ValueError, match="at least one"):
        moments(0, True, True)


def test_the_browser_counts_what_python_counts(javascript):
    for reshard, prefetch in SWITCHES:
        found = moments(UNITS, reshard, prefetch)
        shown = FsdpTimeline(reshard=reshard, prefetch=prefetch)
        assert shown.schedules[" ".join(["reshard"] * reshard + ["prefetch"] * prefetch)] == [
            asdict(moment) for moment in found
        ]
        for ranks in (2, 3, 4):
            given = [[asdict(moment) for moment in found], UNITS, ranks]
            held = javascript("given[0].map((moment) => m.live(moment, given[1], given[2]))", given)
            assert held == pytest.approx([live(moment, UNITS, ranks) for moment in found])
            crossed = javascript("given[0].map((_, i) => m.sent(given[0].slice(0, i + 1), given[2]))", given)
            assert crossed == pytest.approx([sent(found[: i + 1], ranks) for i in range(len(found))])


def test_prefetch_leaves_few_collectives_that_arithmetic_waits_for(javascript):
    given = [[asdict(moment) for moment in moments(UNITS, *switches)] for switches in SWITCHES]
    waits = dict(zip(SWITCHES, javascript("given.map(m.exposed)", given), strict=True))
    assert waits[True, False] == {"all": 12, "alone": 12} and waits[True, True] == {"all": 12, "alone": 3}
    assert waits[False, False] == {"all": 8, "alone": 8} and waits[False, True] == {"all": 8, "alone": 2}


def row(page, name):
    line = page.locator(".compared tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").all_inner_texts()


def test_next_walks_through_a_step_and_the_pictures_follow(mount):
    page = mount(FsdpTimeline())
    status, following = page.locator(".status"), page.get_by_role("button", name="Next")
    assert (
        status.inner_text()
        == "Event 1 of 29. All-gather: every rank gets the other slices of unit 0, and waits for them."
    )
    assert page.locator(".held .weights .on").count() == 4 * 4 + 3 * 4
    following.click()
    assert "Forward pass of unit 0" in status.inner_text() and page.locator("td.computing").count() == 4
    following.click()
    assert (
        "Every rank frees unit 0, but for its own quarter" in status.inner_text()
        and page.locator(".held .weights .on").count() == 16
    )
    for _ in range(40):
        following.press("Enter")
    assert status.inner_text().startswith("Event 29 of 29. Every rank updates its own quarter")
    assert following.get_attribute("aria-disabled") == "true" and page.locator(".held .summed .on").count() == 16
    assert row(page, "holds now") == ["0.50", "2.00"]
    assert row(page, "has sent by now")[0] == row(page, "sends in the step")[0] == "2.25"


def test_the_switches_begin_again_and_change_what_is_sent_and_held(mount):
    page = mount(FsdpTimeline(step=9))
    assert row(page, "holds at most") == ["0.94", "2.00"]
    page.get_by_role("button", name="prefetch").click()
    assert page.evaluate("model.get('step')") == 1 and row(page, "holds at most")[0] == "1.38"
    assert page.locator(".waits").inner_text() == "Arithmetic waits for 3 of the 12 collectives."
    page.get_by_role("button", name="reshard after forward").click()
    assert row(page, "sends in the step") == ["1.50", "1.50"]


def test_it_is_stepped_by_keyboard_and_plays_to_the_end(mount):
    page = mount(FsdpTimeline(prefetch=True, reshard=False))
    slider = page.get_by_role("slider", name="Event")
    slider.press("End")
    assert page.evaluate("model.get('step')") == 15 and slider.get_attribute("aria-valuetext") == "Event 15 of 15"
    slider.press("ArrowLeft")
    page.get_by_role("button", name="Play").press("Enter")
    page.get_by_role("button", name="Pause").wait_for()
    page.wait_for_function("model.get('step') === 15")
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_role("slider", name="ranks").press("Home")
    assert page.locator(".held tbody tr").count() == 2


def test_jupyterlab_leaves_the_keys_to_the_widget_and_a_change_from_python_is_drawn(mount):
    page = mount(FsdpTimeline())
    focusable = page.locator("#widget :is(input, button, [tabindex])")
    assert focusable.count() == page.locator("#widget [data-lm-suppress-shortcuts=true]").count()
    page.evaluate("model.set('step', 17)")
    assert page.locator(".status").inner_text().startswith("Event 17 of 29")


def test_the_pictures_say_in_words_what_they_show(mount):
    page = mount(FsdpTimeline(step=17))
    assert "0.56 times the model's weights at event 17, 0.94 at most" in page.locator(".line svg").get_attribute(
        "aria-label"
    )
    first = page.locator(".held tbody tr").first.get_by_role("img")
    assert [first.nth(i).get_attribute("aria-label") for i in (0, 4, 7)] == [
        "weights: its own slice",
        "weights: all",
        "gradients: its slice of the sum",
    ]


def test_stepping_moves_nothing_else_on_a_phone(mount):
    page = mount(FsdpTimeline(prefetch=True), width=390)
    tops = set()
    for _ in range(19):
        page.get_by_role("button", name="Next").click()
        tops.add((page.locator(".held").bounding_box()["y"], page.locator(".compared").bounding_box()["y"]))
    assert len(tops) == 1


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(FsdpTimeline(prefetch=True, step=12), width=width, scheme=scheme), width)


def test_what_there_is_not_is_refused():
    for ranks in (1, 5):
        with pytest.raises(ValueError, match="2 to 4 ranks"):
            FsdpTimeline(ranks)
    for step in (0, 30):
        with pytest.raises(ValueError, match="the first is 1"):
            FsdpTimeline(step=step)
