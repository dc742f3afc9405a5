"""Block tables: the browser keeps the books as Python does, and a shadow memory reads in each story what was written."""

import random
import re
from copy import deepcopy

import pytest

from gpulab.widgets import BlockTable
from gpulab.widgets.block_table import STORIES, as_sent
from gpulab.widgets.block_table.moves import Event, Frame, Story, make
from tests.sampling import sampled
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN, MOVES = 40, 60
FIELDS = ("counts", "filled", "kept", "tables", "lengths", "computed", "copied", "shared")


javascript = functions_of("block_table/model.js")


def random_move(rng, story, frame):
    """Any move at all; most are refused."""
    sequence, block = rng.choice(story.sequences), rng.randrange(story.total)
    table = frame.tables.get(rng.choice(story.sequences), [])
    places = rng.randint(0, len(table))
    return rng.choice(
        [
            ("take", sequence, block),
            ("take", sequence, block),
            ("fill", sequence, rng.randint(1, story.size + 1)),
            ("fill", sequence, rng.randint(1, 3)),
            ("share", sequence, tuple(table[:places]), rng.randint(1, 3 * story.size)),
            ("copy", sequence, table[-1] if table else block, rng.randrange(story.total)),
            ("drop", sequence),
        ]
    )


def random_story(seed):
    """Moves that no cache would refuse, drawn one by one."""
    rng = random.Random(seed)
    story = Story("drawn", rng.randint(4, 12), rng.randint(1, 5), rng.random() < 0.5, "ABCD", [Event("empty")])
    frame = Frame.empty(story.total)
    while len(story.events) < MOVES:
        move, before = random_move(rng, story, frame), deepcopy(frame)
        try:
            make(move, frame, story)
            story.events.append(Event("next", [move]))
        except (ValueError, KeyError):
            assert frame == before, f"{move} was refused and changed something"
    return story


def test_the_browser_keeps_pythons_books(javascript):
    stories = [*STORIES.values(), *(random_story(seed) for seed in range(DRAWN))]
    names = set()
    for story, found in zip(
        stories, javascript("given.map(m.frames)", [as_sent(story) for story in stories]), strict=True
    ):
        assert found == [{name: getattr(frame, name) for name in FIELDS} for frame in story.frames()]
        names |= {move[0] for event in story.events for move in event.moves}
    assert names == {"take", "fill", "share", "copy", "drop"}


def test_the_browser_sums_what_the_tables_say(javascript):
    stories = [random_story(seed) for seed in range(DRAWN, DRAWN + 10)]
    of_frame = "[m.sums(frame, story), frame.counts.map((_, block) => m.owners(frame, block))]"
    summed = f"given.map((story) => m.frames(story).map((frame) => {of_frame}))"
    for story, found in zip(stories, javascript(summed, [as_sent(story) for story in stories]), strict=True):
        for frame, (sums, owners) in zip(story.frames(), found, strict=True):
            assert [len(names) for names in owners] == frame.counts
            held = {block: names for block, names in enumerate(owners) if names}
            for block, names in held.items():
                assert names == sorted(name for name, table in frame.tables.items() if block in table)
            empty = sum(story.size - frame.filled[block] for block in held)
            alone = sum(-(-length // story.size) for length in frame.lengths.values())
            assert (sums["held"], sums["empty"], sums["alone"]) == (len(held), empty, alone)
            assert (
                sums["held"] + sums["free"] + sums["findable"] == story.total
                and sums["places"] == len(held) * story.size
            )


class Shadow:
    """A memory in which the moves are carried out with tokens that are all different."""

    def __init__(self, story):
        self.story, self.cells, self.next = story, {}, 0
        self.tables, self.expected = {}, {}

    def read(self, sequence, tokens):
        size, table = self.story.size, self.tables[sequence]
        return [self.cells[table[token // size], token % size] for token in range(tokens)]

    def take(self, sequence, block):
        self.tables.setdefault(sequence, []).append(block)
        self.expected.setdefault(sequence, [])

    def fill(self, sequence, tokens):
        for _ in range(tokens):
            place, self.next = len(self.expected[sequence]), self.next + 1
            self.cells[self.tables[sequence][place // self.story.size], place % self.story.size] = self.next
            self.expected[sequence].append(self.next)

    def share(self, sequence, blocks, tokens):
        self.tables[sequence] = list(blocks)
        self.expected[sequence] = self.read(sequence, tokens)

    def copy(self, sequence, old, new):
        self.tables[sequence][-1] = new
        self.cells |= {
            (new, place): self.cells[old, place] for place in range(self.story.size) if (old, place) in self.cells
        }

    def drop(self, sequence):
        del self.tables[sequence], self.expected[sequence]

    def play(self, event):
        for name, *rest in event.moves:
            getattr(self, name)(*rest)


@pytest.mark.parametrize("key", STORIES)
def test_every_sequence_of_a_story_reads_its_own_tokens(key):
    story = STORIES[key]
    shadow = Shadow(story)
    for event, frame in zip(story.events, story.frames(), strict=True):
        shadow.play(event)
        assert frame.tables == shadow.tables and frame.lengths == {
            name: len(expected) for name, expected in shadow.expected.items()
        }
        for sequence, expected in shadow.expected.items():
            assert shadow.read(sequence, len(expected)) == expected, event.say
            assert 0 <= len(frame.tables[sequence]) * story.size - len(expected) < story.size, event.say


def test_the_forks_share_what_the_parent_reads_and_one_copy_is_due():
    shadow, story = Shadow(STORIES["fork"]), STORIES["fork"]
    parents = {"B": "A", "C": "B"}
    for event in story.events:
        shadow.play(event)
        for name, *rest in event.moves:
            if name == "share":
                assert shadow.expected[rest[0]] == shadow.expected[parents[rest[0]]]
    assert [move[0] for event in story.events for move in event.moves].count("copy") == 1
    last = story.frames()[-1]
    assert not any(last.counts) and not any(last.filled) and last.copied == 3


def test_a_hit_is_of_full_blocks_and_what_is_found_was_computed_by_a():
    shadow, story, of_a = Shadow(STORIES["prefix"]), STORIES["prefix"], []
    for event in story.events:
        shadow.play(event)
        of_a = list(shadow.expected.get("A", of_a))
        for name, *rest in event.moves:
            if name == "share":
                sequence, blocks, tokens = rest
                assert tokens == len(blocks) * story.size and shadow.expected[sequence][:tokens] == of_a[:tokens]
    last = story.frames()[-1]
    assert not any(last.counts) and all(filled in (0, story.size) for filled in last.filled)


@pytest.mark.parametrize("key", STORIES)
def test_free_blocks_go_before_findable_ones_and_the_last_of_a_chain_first(key):
    story = STORIES[key]
    frames, chains = story.frames(), {}
    for before, event in zip(frames, story.events[1:], strict=False):
        chains |= {name: table for name, table in before.tables.items()}
        held = {move[2] for move in event.moves if move[0] == "take"}
        evicted = {block for block in held if before.kept[block]}
        free = {block for block, count in enumerate(before.counts) if not count and not before.kept[block]}
        assert not evicted or free <= held, event.say
        for block in evicted:
            for chain in chains.values():
                if block in chain:
                    after = chain[chain.index(block) + 1 :]
                    assert not any(before.kept[other] and other not in evicted for other in after), event.say


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ([("take", "A", 0), ("take", "B", 0)], "is held"),
        ([("take", "A", 0), ("fill", "A", 5)], "no room"),
        ([("take", "A", 0), ("fill", "A", 3), ("share", "B", (0,), 3), ("fill", "B", 1)], "another reads"),
        ([("share", "B", (0,), 3)], "holds nothing"),
        ([("take", "A", 0), ("fill", "A", 2), ("share", "B", (0,), 3)], "not all of it"),
        ([("take", "A", 0), ("fill", "A", 3), ("copy", "A", 0, 1)], "no need"),
        ([("take", "A", 0), ("fill", "A", 4), ("share", "B", (0,), 4), ("copy", "B", 0, 1)], "no need"),
    ],
)
def test_a_story_that_no_cache_could_live_is_refused(moves, said):
    with pytest.raises(ValueError, match=said):
        Story("wrong", 4, 4, False, "AB", [Event("all", moves)]).frames()


def step_to(page, number):
    page.evaluate(f"model.set('step', {number})")


def rows(page):
    return [row.locator("td").all_inner_texts() for row in page.locator(".below tbody tr").all()]


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


@pytest.mark.parametrize("key", sampled(STORIES, now=["fork"]))
def test_each_step_shows_pythons_frame(mount, key):
    widget, story = BlockTable(key), STORIES[key]
    page = mount(widget)
    for number, frame in enumerate(widget.frames(), 1):
        step_to(page, number)
        assert (
            page.get_by_role("status").inner_text()
            == f"Step {number} of {len(story.events)}. {story.events[number - 1].say}"
        )
        expected = [
            [str(frame.lengths[name]), " ".join(map(str, table)), str(len(table) * story.size - frame.lengths[name])]
            if (table := frame.tables.get(name))
            else ["–"] * 3
            for name in story.sequences
        ]
        assert rows(page) == expected
        counts = page.locator(".physical .count").all_inner_texts()
        assert counts == [f"× {count}" if count else "" for count in frame.counts]
        squares = page.locator(".physical li").evaluate_all(
            "all => all.map((one) => one.querySelectorAll('.token.on').length)"
        )
        assert squares == frame.filled
        owners = page.locator(".physical .owners").all_inner_texts()
        for block, (count, kept) in enumerate(zip(frame.counts, frame.kept, strict=True)):
            named = " ".join(sorted(name for name, table in frame.tables.items() if block in table))
            assert owners[block] == (named if count else "findable" if kept else "free")


def test_steps_by_keyboard_and_back(mount):
    page = mount(BlockTable())
    following = page.get_by_role("button", name="Next")
    following.focus()
    for _ in range(4):
        page.keyboard.press("Enter")
    assert page.evaluate("model.get('step')") == 5 and rows(page)[1] == ["12", "0 1 3", "0"]
    changed = page.locator(".physical li.changed")
    assert changed.locator(".mono").all_inner_texts() == ["block 2", "block 3"]
    assert [shown(page, name) for name in ("blocks", "if nobody shared", "empty places of those held", "copied")] == [
        "4 held, 5 free",
        "6 held",
        "1 of 16",
        "3",
    ]
    page.get_by_role("button", name="Previous").press("Enter")
    assert page.evaluate("model.get('step')") == 4 and shown(page, "copied") == "0"
    page.get_by_role("slider", name="Step").press("End")
    assert (
        page.get_by_role("status").inner_text().startswith("Step 14 of 14.")
        and shown(page, "blocks") == "0 held, 9 free"
    )
    page.get_by_role("button", name="To the start").press("Enter")
    assert page.evaluate("model.get('step')") == 1 and page.locator(".physical li.changed").count() == 0


def test_play_goes_on_by_itself_and_stops(mount):
    page = mount(BlockTable(step=13))
    page.get_by_role("button", name="Play").press("Enter")
    page.wait_for_function("model.get('step') === 14")
    page.get_by_role("button", name="Play").wait_for()


def test_the_other_story_begins_at_its_start(mount):
    page = mount(BlockTable(step=9))
    page.get_by_label("story").select_option("prefix")
    assert page.evaluate("[model.get('story'), model.get('step')]") == ["prefix", 1]
    step_to(page, 11)
    assert page.locator(".physical li.kept").count() == 2 and shown(page, "blocks") == "6 held, 2 findable, 0 free"
    assert page.locator(".legend").inner_text().count("findable") == 1


def test_each_block_says_in_words_what_it_holds(mount):
    page = mount(BlockTable(step=5))
    labels = page.locator(".tokens").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert labels[:5] == ["2 owners, 4 of 4 tokens"] * 2 + ["1 owner, 3 of 4 tokens", "1 owner, 4 of 4 tokens", "free"]


def test_the_keyboard_reaches_everything_in_order(mount):
    page = mount(BlockTable())
    assert page.locator("#widget :is(input, select, button)[data-lm-suppress-shortcuts=true]").count() == 6
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.type"))
    assert reached == ["select-one", "button", "button", "button", "button", "range"]


@pytest.mark.parametrize("width", sampled([390, 560, 720, 1280], now=[]))
def test_a_step_moves_nothing_else(mount, width):
    for key, story in STORIES.items():
        page, places = mount(BlockTable(key), width=width), set()
        for number in range(1, len(story.events) + 1):
            step_to(page, number)
            below = (page.locator(where).bounding_box() for where in (".physical", ".below table", "dl", ".note"))
            places.add(tuple(round(box["y"]) for box in below))
        assert len(places) == 1, (key, places)


def test_without_a_script_every_step_of_both_stories_stands_in_the_page():
    html, without = still_of(BlockTable()).split("<noscript>")
    assert "which block will be taken" in html and "Step 1 of 14." in html
    told = re.findall(r"<tr><td[^>]*>(\d+)</td><td[^>]*>.*?</td><td[^>]*>(.*?)</td><td[^>]*>(\d+)</td></tr>", without)
    expected = []
    for story in STORIES.values():
        for number, frame in enumerate(story.frames(), 1):
            tables = "; ".join(f"{name}: {' '.join(map(str, table))}" for name, table in frame.tables.items()) or "–"
            free = sum(not count and not kept for count, kept in zip(frame.counts, frame.kept, strict=True))
            expected.append((str(number), tables, str(free)))
    assert told == expected


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(BlockTable("prefix", 6), width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_label("story").select_option("fork")
    step_to(page, 8)
    assert_accessible(page, width)


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="story is one of fork, prefix"):
        BlockTable("swap")
    for step in (0, 15):
        with pytest.raises(ValueError, match=f"step {step} of 14"):
            BlockTable(step=step)
