"""Collectives in steps: the browser's messages, sums and times are those of messages that Python sends one by one."""

import random

import pytest

from gpulab.collectives.network import Shape, ring
from gpulab.widgets import RingStepper
from gpulab.widgets.ring_stepper import CHOICES, WAYS
from tests.collectives.steps import Message, Wires, ring_steps, sums_by_ring
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

LAPS = {"all_reduce ring": 2, "reduce_scatter ring": 1, "all_gather ring": 1}


javascript = functions_of("ring_stepper/model.js")


def members(mask):
    return {i for i in range(8) if mask >> i & 1}


def whole(ranks, way):
    """Messages of whole buffers, each after those that its sender got."""
    pairs = [(r, 0) for r in range(1, ranks)] + [(0, r) for r in range(1, ranks)]
    if way == "all_reduce root":
        return [[pair] for pair in pairs]
    return [[(r, r ^ reach) for r in range(ranks)] for reach in (1, 2, 4) if reach < ranks]


def lockstep(steps, nbytes, wire):
    """Seconds: rounds of messages, each round after the one before it."""
    total = 0.0
    for pairs in steps:
        wires = Wires(8, (wire["hop_us"] / 1e6, wire["bytes_per_s"]))
        total += wires.run([Message(source, target, nbytes) for source, target in pairs])
    return total


def test_rings_send_the_messages_that_python_sends(javascript):
    for way, laps in LAPS.items():
        for ranks in range(2, 9):
            right = ring_steps(list(range(ranks)), 1.0, laps * (ranks - 1))
            found = javascript("m.schedule(given[0], given[1])", [way, ranks])
            assert len(found) == laps * (ranks - 1)
            for hop, sends in enumerate(found):
                expected = {(m.source, m.target, m.chunk) for m in right[hop * ranks : (hop + 1) * ranks]}
                assert {(s["source"], s["target"], s["chunks"][0]) for s in sends} == expected


def test_every_rank_holds_in_the_end_what_the_collective_promises(javascript):
    for ranks in range(2, 9):
        held = javascript("m.heldAfter('all_reduce ring', given, 99)", ranks)
        assert [[members(mask) for mask in row] for row in held] == sums_by_ring(ranks)
    for way in WAYS:
        for ranks in (2, 4, 8) if "doubling" in way else range(2, 9):
            last = javascript("m.schedule(given[0], given[1]).length", [way, ranks])
            ends = javascript(
                "[-1, 0].map((d) => m.done(given[0], given[1], m.heldAfter(given[0], given[1], given[2] + d)))",
                [way, ranks, last],
            )
            assert ends == [False, True], (way, ranks)


def test_a_hop_is_the_one_that_the_page_and_its_exercise_name():
    links = RingStepper().links
    assert (links["NVLink 4"]["hop_us"], links["PCIe 5"]["hop_us"]) == (3.4, 5.7)


def test_the_browsers_times_are_those_of_the_closed_form_and_of_the_messages(javascript):
    rng = random.Random(5)
    for _ in range(120):
        widget = RingStepper(rng.choice(list(WAYS)), rng.choice([2, 4, 8]), rng.randint(10, 33), rng.choice(CHOICES))
        wire, nbytes, ranks = widget.links[widget.link], 2.0**widget.size, widget.ranks
        found = (
            javascript("m.time(given[0], given[1], 99, given[2], given[3])", [widget.way, ranks, nbytes, wire]) / 1e6
        )
        if widget.way in LAPS:
            link = (wire["hop_us"] / 1e6, wire["bytes_per_s"])
            assert found == pytest.approx(
                ring(widget.way.split()[0], nbytes, Shape(1, ranks)).time_s(link, link), rel=1e-9
            )
        else:
            assert found == pytest.approx(lockstep(whole(ranks, widget.way), nbytes, wire), rel=1e-9)


def test_a_ring_spares_every_rank_and_rank_0_is_spared_by_none(javascript):
    for ranks in range(2, 9):
        for way, busiest in (("all_reduce ring", 2 * (ranks - 1)), ("all_reduce root", ranks * (ranks - 1))):
            found = javascript("m.moved(given[0], given[1], 99)", [way, ranks])
            assert max(found["sent"]) == max(found["received"]) == busiest
        assert len(set(javascript("m.moved('all_reduce ring', given, 99).sent", ranks))) == 1


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_next_walks_to_the_end_and_says_so(mount):
    page = mount(RingStepper(ranks=3, size=20))
    for step in range(1, 5):
        page.get_by_role("button", name="Next").click()
        assert f"Step {step} of 4" in page.locator(".status").inner_text()
    assert page.locator(".status").inner_text().endswith("Done.")
    assert page.locator("td.full").count() == 9
    assert shown(page, "busiest rank has sent") == "1.33 MiB of a buffer of 1 MiB"


def test_another_way_begins_again(mount):
    page = mount(RingStepper(step=3))
    page.get_by_label("way").select_option("all_reduce root")
    assert page.evaluate("model.get('step')") == 0
    page.get_by_role("button", name="Next").click()
    assert "rank 1 sends everything to rank 0" in page.locator(".status").inner_text()


def test_small_buffers_are_all_latency_and_large_ones_hardly_any(mount):
    page = mount(RingStepper(size=10, link="InfiniBand NDR"))
    assert shown(page, "of it latency") == "100 %"
    size = page.get_by_role("slider", name="size")
    size.focus()
    page.keyboard.press("End")
    assert shown(page, "of it latency") == "0 %"


def test_partners_need_a_power_of_two(mount):
    page = mount(RingStepper(way="all_reduce doubling", ranks=8))
    assert "3 steps" in page.locator(".status").inner_text()
    page.get_by_role("slider", name="ranks").focus()
    page.keyboard.press("ArrowLeft")
    assert "need 2, 4 or 8 ranks" in page.locator(".status").inner_text()


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(RingStepper(ranks=8, step=5), width=width, scheme=scheme), width)


def test_what_the_controls_cannot_hold_is_refused():
    for options in ({"ranks": 9}, {"size": 9}, {"step": 15}):
        with pytest.raises(ValueError, match="is from"):
            RingStepper(**options)
    for options in ({"way": "broadcast ring"}, {"link": "USB"}):
        with pytest.raises(ValueError, match="choose one of"):
            RingStepper(**options)
