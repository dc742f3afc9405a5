"""The warm pool: the browser's replay is gpulab.platforms', to the last wait, and what is said of it is true."""

import random
import re

import pytest

from gpulab.widgets import WarmPool
from gpulab.widgets.warm_pool import LOADS, SETTLE, VALUES
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 40


javascript = functions_of("warm_pool/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    return WarmPool(rng.choice(list(LOADS)), **{name: rng.choice(choices) for name, choices in VALUES.items()})


PLAYED = """(() => given.pools.map(({ load, memory, room, cold, service }) => {
  const arrivals = given.loads[load], one = m.replay(m.lately(memory, room), arrivals, cold, service, given.settle);
  const size = m.keeping(arrivals, cold, service, 0, given.settle), theirs = m.replay(() => size, arrivals, cold, service, given.settle);
  return { ...one, p99: m.percentile(one.waits, 99), size, theirs: [theirs.unused, theirs.starts] };
}))()"""


def test_the_browser_replays_what_python_replays(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    pools = [{name: getattr(widget, name) for name in ("load", *VALUES)} for widget in widgets]
    found = javascript(PLAYED, {"pools": pools, "loads": LOADS, "settle": SETTLE})
    for widget, one in zip(widgets, found, strict=True):
        expected, (size, theirs) = widget.played(), widget.in_hindsight()
        assert one["waits"] == list(expected.waits) and one["sizes"] == list(expected.sizes), widget.get_state()
        assert (one["unused"], one["starts"], one["p99"]) == (expected.unused, expected.starts, expected.percentile(99))
        assert (one["size"], one["theirs"]) == (size, [theirs.unused, theirs.starts])


def cells(page, name):
    line = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").all_inner_texts()


def verdict(page):
    return page.locator(".verdict").inner_text()


def of(replayed):
    return [f"{replayed.percentile(50)} s", f"{replayed.percentile(99)} s", str(replayed.unused), str(replayed.starts)]


def test_the_first_table_is_pythons(mount):
    widget = WarmPool()
    page, (size, theirs) = mount(widget), widget.in_hindsight()
    assert cells(page, "this policy") == of(widget.played()) and cells(page, f"always {size}") == of(theirs)
    assert "Instances are stopped and started again." in verdict(page) and verdict(page).startswith(
        "One request in a hundred waits"
    )


def test_a_longer_memory_turns_the_answer_by_keyboard(mount):
    page = mount(WarmPool())
    memory = page.get_by_role("slider", name="remembers")
    memory.press("ArrowRight")
    memory.press("ArrowRight")
    assert page.evaluate("model.get('memory')") == 90 and memory.get_attribute("aria-valuetext") == "90 s"
    assert cells(page, "this policy") == of(WarmPool(memory=90).played()) and re.match(
        r"99 of 100 requests begin within \d+ s\.", verdict(page)
    )
    page.get_by_label("load", exact=True).select_option("nights")
    assert re.search(r"\d+ % less is paid unused", verdict(page))


def test_every_setting_is_told_truly(mount):
    page = mount(WarmPool())
    for seed in range(100, 115):
        widget = random_widget(seed)
        for name in ("load", *VALUES):
            page.evaluate("([name, value]) => model.set(name, value)", [name, getattr(widget, name)])
        expected, (_, theirs), said = widget.played(), widget.in_hindsight(), verdict(page)
        assert said.startswith("One request" if expected.percentile(99) > widget.cold / 2 else "99 of 100")
        assert ("started again" in said) == (12 * expected.starts > len(expected.waits))
        ratio = expected.unused / theirs.unused
        assert ("less is paid" in said, "more is paid" in said) == (ratio < 0.95, ratio > 1.05)


def test_the_picture_says_in_words_what_it_shows(mount):
    widget = WarmPool()
    words = mount(widget).get_by_role("img").get_attribute("aria-label")
    size, _ = widget.in_hindsight()
    assert f"the pool has up to {max(widget.played().sizes)} instances. The fixed pool has {size}." in words


def test_the_keyboard_reaches_everything_in_order(mount):
    page = mount(WarmPool())
    assert page.locator("#widget :is(input, select)[data-lm-suppress-shortcuts=true]").count() == 5
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.value"))
    assert reached == ["pulses", "remembers", "room for", "a start", "a request"]


@pytest.mark.parametrize("width", [390, 720, 1280])
def test_moving_a_slider_moves_nothing_else(mount, width):
    page = mount(WarmPool(), width=width)
    places = set()
    for name in ("remembers", "room for", "a start", "a request"):
        for key in ("Home", "End"):
            page.get_by_role("slider", name=name).press(key)
            below = (page.locator(where).bounding_box() for where in ("svg[role=img]", "table", ".note"))
            places.add(tuple(round(box["y"]) for box in below))
    assert len(places) == 1, places


def test_without_a_script_question_picture_and_every_memorys_answer_stand_in_the_page():
    html, without = still_of(WarmPool()).split("<noscript>")
    assert "How much does this pool have to remember" in html and 'viewBox="0 0 640 190"' in html
    rows = re.findall(
        r"<tr><th scope=\"row\"[^>]*>(.*?)</th><td>([^<]*)</td><td>([^<]*)</td><td>([^<]*)</td></tr>", without
    )
    assert rows == [(f"{memory} s", *of(WarmPool(memory=memory).played())[1:]) for memory in VALUES["memory"]]


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(WarmPool(), width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_label("load", exact=True).select_option("day")
    assert_accessible(page, width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"load": "strike"}, *({name: -1} for name in VALUES)):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} is one of"):
            WarmPool(**wrong)
