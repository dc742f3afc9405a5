"""A schedule in the reader's hand: the browser finds what Python finds, and actions are moved by mouse, finger and keys."""

import random

import pytest

from gpulab.parallel import (
    INTERVIEW_NOTES,
    Action,
    gpipe,
    idle_share,
    in_flight,
    needs,
    one_f_one_b,
    slots,
    violations,
    zero_bubble,
)
from gpulab.widgets import ScheduleEditor
from gpulab.widgets.schedule_editor import NOTES, padded, stories
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 200


javascript = functions_of("schedule_editor/model.js")


def spoiled(rng):
    """A sound schedule with a few of its cells moved, doubled, lost or replaced, and how large its pipeline is."""
    stages, microbatches = rng.randint(1, 4), rng.randint(1, 4)
    table = padded(rng.choice([gpipe, one_f_one_b, zero_bubble])(stages, microbatches))
    for _ in range(rng.randint(0, 4)):
        cells = [(gpu, slot) for gpu, row in enumerate(table) for slot in range(len(row))]
        (gpu, slot), (other, there) = rng.choice(cells), rng.choice(cells)
        change = rng.choice(["swap", "double", "lose", "replace"])
        if change == "swap":
            table[gpu][slot], table[other][there] = table[other][there], table[gpu][slot]
        elif change == "double":
            table[gpu][slot] = table[other][there]
        else:
            stranger = str(Action(rng.randint(0, stages), rng.choice("FBIW"), rng.randint(0, microbatches)))
            table[gpu][slot] = None if change == "lose" else stranger
    return table, stages, microbatches


def told(one):
    return [one.kind, str(one.action), [list(place) for place in one.places], [str(action) for action in one.waits_for]]


def test_the_browser_names_the_violations_that_python_names(javascript):
    rng = random.Random(0)
    given = [spoiled(rng) for _ in range(DRAWN)]
    expression = (
        "given.map(([table, stages, microbatches]) => m.violations(table, { stages, microbatches })"
        ".map((one) => [one.kind, one.action, one.places.map(({ gpu, slot }) => [gpu, slot]), one.waits]))"
    )
    expected = [[told(one) for one in violations(*case)] for case in given]
    assert javascript(expression, given) == expected
    assert {kind for case in expected for kind, *_ in case} == {"early", "missing", "twice", "foreign", "split"}


def test_the_browser_counts_slots_bubble_and_activations_as_python_does(javascript):
    rng = random.Random(1)
    tables = [spoiled(rng)[0] for _ in range(DRAWN)]
    found = javascript("given.map((table) => [m.slots(table), m.idleShare(table), m.inFlight(table)])", tables)
    for table, (last, idle, held) in zip(tables, found, strict=True):
        assert (last, held) == (slots(table), in_flight(table)) and idle == pytest.approx(idle_share(table))


def test_the_stories_are_sound_but_for_the_notes_figure():
    broken = {name: len(violations(table)) for name, table in stories().items()}
    assert broken.pop(NOTES) == 5 and set(broken.values()) == {0}
    assert slots(INTERVIEW_NOTES) == 12 and slots(stories()["GPipe"]) == 14


def test_stories_go_to_the_browser_in_their_order_all_of_four_gpus():
    assert [name for name, _ in ScheduleEditor().stories] == list(stories())
    assert {len(table) for table in stories().values()} == {4}


def at(page, gpu, slot):
    return page.locator(f'button[data-at="{gpu} {slot}"]')


def faults(page):
    return page.locator(".faults li").all_inner_texts()


def test_the_notes_figure_breaks_five_rules_by_name(mount):
    page = mount(ScheduleEditor())
    assert page.locator(".verdict").inner_text() == "5 rules broken:"
    assert faults(page)[0] == "3B3 never runs." and faults(page)[1] == "2B0 runs in slot 9, not after 3B0."
    assert page.locator("button.wrong").count() == 4 and "bubble" in page.locator("caption").inner_text()


def mend(page, put):
    """Three rows later by some slots, the last first, and the action that the figure forgot."""
    for gpu, microbatches in ((2, "0123"), (1, "0123"), (0, "0123")):
        for microbatch in microbatches:
            where = page.evaluate(f"model.get('table')[{gpu}].indexOf('{gpu}B{microbatch}')")
            put(gpu, where, where + 2)
    for slot, target in ((9, 10), (8, 9), (7, 8)):
        put(3, slot, target)
    page.get_by_role("button", name="3B3").click()
    at(page, 3, 7).click()


def test_the_figure_is_mended_in_fourteen_slots_by_picking_up_and_putting_down(mount):
    page = mount(ScheduleEditor())

    def put(gpu, slot, target):
        at(page, gpu, slot).click()
        at(page, gpu, target).click()

    mend(page, put)
    assert page.locator(".verdict").inner_text() == "No rule is broken. 14 slots, 43 % of them idle."
    table = page.evaluate("model.get('table')")
    assert violations(table) == [] and slots(table) == 14


def test_an_action_is_dragged_with_the_mouse(mount):
    page = mount(ScheduleEditor(story="GPipe"))
    page.evaluate("document.querySelector('.slots').scrollIntoView()")
    source, target = (at(page, 0, slot).bounding_box() for slot in (13, 4))
    for box, act in ((source, page.mouse.down), (target, page.mouse.up)):
        page.mouse.move(box["x"] + 8, box["y"] + 8)
        act()
    assert page.evaluate("model.get('table')[0][4]") == "0B3"
    assert faults(page) == ["0B3 runs in slot 4, not after 1B3."]


def test_an_action_is_moved_with_the_keyboard_and_the_focus_follows(mount):
    page = mount(ScheduleEditor(story="1F1B"))
    page.get_by_role("button", name="Take it out").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    for key in ("ArrowRight", "Enter", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate("[model.get('table')[1][1], model.get('table')[1][2]]") == ["1F1", "1F0"]
    assert page.evaluate("document.activeElement.dataset.at") == "1 2"
    page.keyboard.press("Enter")
    page.keyboard.press("Delete")
    assert "1F0 never runs." in faults(page)
    page.keyboard.press("Home")
    assert page.locator('#widget button[tabindex="0"]').count() == 1


def test_an_action_stays_in_its_gpus_row(mount):
    page = mount(ScheduleEditor(story="GPipe"))
    at(page, 0, 0).click()
    at(page, 1, 0).click()
    assert "its stage's weights are there" in page.locator(".hand").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("button.held").count() == 0 and page.evaluate("model.get('table')[0][0]") == "0F0"


def test_begin_again_and_another_schedule(mount):
    page = mount(ScheduleEditor())
    at(page, 0, 0).click()
    page.get_by_role("button", name="Take it out").click()
    assert page.evaluate("model.get('table')[0][0]") is None
    page.get_by_role("button", name="Begin again").click()
    assert page.evaluate("model.get('table')[0][0]") == "0F0"
    page.get_by_label("schedule", exact=True).select_option("1F1B")
    cells = page.locator(".numbers tbody tr td:nth-child(2)").all_inner_texts()
    assert cells == ["4", "3", "2", "1"] and faults(page) == []


def test_a_table_of_your_own_is_shown_and_a_change_from_python_is_drawn(mount):
    page = mount(ScheduleEditor([["0F0", "0B0"]]))
    assert (
        page.get_by_label("schedule", exact=True).input_value() == "your own"
        and "No rule is broken" in page.locator(".verdict").inner_text()
    )
    page.evaluate("model.set('table', [['0B0', '0F0', null, null]])")
    assert faults(page) == ["0B0 runs in slot 0, not after 0F0."]


def test_needs_are_those_of_python(javascript):
    """Each action alone in the last slot of a table that lacks exactly one of what it needs."""
    for stages in (1, 3):
        for kind in "FBIW":
            action = Action(min(1, stages - 1), kind, 0)
            found = javascript(
                "m.violations([[given[0]]], { stages: given[1], microbatches: 1 })", [str(action), stages]
            )
            waits = [one["waits"] for one in found if one["kind"] == "early"]
            assert waits == ([[str(some[0]) for some in needs(action, stages)]] if list(needs(action, stages)) else [])


@pytest.mark.parametrize("width", [1100, 390])
def test_moving_an_action_moves_nothing_below_the_table(mount, width):
    page = mount(ScheduleEditor(), width=width)
    tops = {page.locator(".numbers").bounding_box()["y"]}
    for gpu, slot, target in ((0, 8, 12), (3, 3, 11), (2, 6, 0)):
        at(page, gpu, slot).click()
        at(page, gpu, target).click()
        tops.add(page.locator(".numbers").bounding_box()["y"])
    assert len(tops) == 1


def test_jupyterlab_leaves_the_keys_to_the_widget(mount):
    page = mount(ScheduleEditor())
    focusable = page.locator("#widget :is(input, button, select, [tabindex])")
    assert focusable.count() == page.locator("#widget [data-lm-suppress-shortcuts=true]").count()


def test_a_reader_without_a_script_sees_every_schedule_judged():
    page = still_of(ScheduleEditor())
    assert "3B3 never runs." in page and "zero-bubble (ZB-H1)" in page


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(ScheduleEditor(), width=width, scheme=scheme)
    at(page, 0, 0).click()
    assert_accessible(page, width)


def test_what_is_no_schedule_is_refused():
    for wrong in ({"story": "DualPipe"}, {"table": [["F0"]]}, {"table": [[None]]}, {"table": [[None] * 28 + ["0F0"]]}):
        with pytest.raises(ValueError):
            ScheduleEditor(**wrong)
