"""Segments and blocks: what the browser's allocator does is what gpulab.cuda's does, on traces drawn at random."""

import json
import random
import re

import pytest
import torch

import gpulab.cuda
from gpulab.cuda.machine.allocator import Allocator, OutOfMemory
from gpulab.widgets import AllocatorBlocks
from gpulab.widgets.allocator_blocks import RECORDED, traces
from gpulab.widgets.allocator_blocks.recording import training_step
from gpulab.widgets.allocator_blocks.traces import MIB, WRITTEN, written
from tests.widgets.looks import assert_accessible, functions_of, imported, in_every_look

DRAWN = 3000
SMALL = (1, 512, 513, 100 << 10, MIB - 512, MIB)
LARGE = (MIB + 1, 2 * MIB, 5 * MIB, 9 * MIB, 10 * MIB - 512, 10 * MIB, 10 * MIB + 1, 11 * MIB, 24 * MIB)
EDGES = SMALL + LARGE
RUN = """JSON.stringify(JSON.parse(given).map(({ capacity, actions }) => {
  const state = m.fresh(capacity);
  return actions.map((action, number) => {
    const event = m.act(state, action, number), { requested, allocated, reserved } = m.counters(state);
    const each = ({ size, holds, requested }) => [size, holds, requested];
    const blocks = state.segments.map(({ address, size, small, blocks }) => [address, size, small, blocks.map(each)]);
    return [Boolean(event.failed), requested, allocated, reserved, blocks];
  });
}))"""
"""As text there and back: Playwright takes its time over nested lists."""


javascript = functions_of("allocator_blocks/model.js")


class Card:
    """Python's allocator on one stream, acted upon as the browser's is."""

    def __init__(self, capacity):
        self.allocator = Allocator(capacity, lambda: None, lambda: None, lambda stream: None, lambda use: True)
        self.held, self._start = {}, None

    def act(self, action, number):
        """Whether the malloc failed."""
        if action["kind"] == "empty_cache":
            self.allocator.empty_cache()
        elif action["kind"] == "free":
            self.allocator.free(self.held.pop(action["of"]))
        else:
            try:
                self.held[number] = self.allocator.malloc(action["bytes"], 0)
            except OutOfMemory:
                return True
            if self._start is None:
                self._start = self.held[number].address
        return False

    def looks(self, failed):
        stats, numbers = self.allocator.stats.all, {id(block): number for number, block in self.held.items()}
        segments = [
            [address - self._start, segment.size, segment.small, [_plain(block, numbers) for block in segment.blocks()]]
            for address, segment in sorted(self.allocator.segments.items())
        ]
        return [
            failed,
            stats.requested_bytes.current,
            stats.allocated_bytes.current,
            stats.reserved_bytes.current,
            segments,
        ]


def _plain(block, numbers):
    return [block.size, numbers.get(id(block)), block.requested if block.allocated else 0]


def drawn(seed):
    """Up to 60 actions on a card that is sometimes too small. Frees what is alive; a failed malloc is never freed."""
    rng = random.Random(seed)
    card, actions = Card(rng.choice((21, 40, 64, 130, 500)) * MIB), []
    often = rng.uniform(0.3, 0.6)
    for number in range(rng.randint(1, 60)):
        kind = rng.random()
        if card.held and kind < often:
            action = {"kind": "free", "of": rng.choice(list(card.held))}
        elif kind > 0.97:
            action = {"kind": "empty_cache"}
        else:
            size = rng.choice(EDGES) if rng.random() < 0.5 else int(2 ** rng.uniform(0, 25))
            action = {"kind": "malloc", "bytes": size, "name": f"t{number}"}
        card.act(action, number)
        actions.append(action)
    return {"capacity": card.allocator.capacity, "actions": actions}


def due(trace):
    card = Card(trace["capacity"])
    return [card.looks(card.act(action, number)) for number, action in enumerate(trace["actions"])]


def test_every_block_after_every_action_is_where_pythons_allocator_has_it(javascript):
    met = {"failed": 0, "given back": 0, "several segments": 0}
    given = [drawn(seed) for seed in range(DRAWN)]
    for trace, found in zip(given, json.loads(javascript(RUN, json.dumps(given))), strict=True):
        expected = due(trace)
        assert found == expected, trace
        met["failed"] += any(state[0] for state in expected)
        met["given back"] += any(after[3] < before[3] for before, after in zip(expected, expected[1:]))
        met["several segments"] += max(len(state[4]) for state in expected) > 3
    assert min(met.values()) > DRAWN // 20, met


def test_the_traces_of_the_page_agree_too(javascript):
    given = [trace.plain() for trace in traces().values()]
    assert json.loads(javascript(RUN, json.dumps(given))) == [due(trace) for trace in given]


def test_what_an_action_did_is_what_it_says(javascript):
    """The event's own figures, against the states before and after."""
    expression = """given.map(({ capacity, actions }) => {
      const state = m.fresh(capacity);
      return actions.map((action, number) => {
        const before = m.counters(state), segments = state.segments.length, event = m.act(state, action, number), after = m.counters(state);
        const gone = (event.returned ?? []).reduce((all, { size }) => all + size, 0);
        const grown = after.allocated - before.allocated, got = after.reserved - before.reserved + gone;
        const { block } = m.places(state).find(({ segment, block }) => segment.number === event.segment && block.offset === event.at) ?? {};
        if (event.kind === "free") return block.size === event.into && after.parts === before.parts + 1 - event.merged.length && grown === -event.size;
        if (event.kind === "empty_cache") return got === 0 && event.kept === after.free && event.staying === state.segments.length;
        if (event.failed) return grown === 0 && after.left < event.wanted && event.largest < event.size && event.freeInPool <= after.free;
        const fromDriver = event.from === "driver";
        return grown === (event.split ? event.size : event.found) && event.found - event.size === event.rest
          && got === (fromDriver ? event.wanted : 0) && state.segments.length === segments - event.returned.length + fromDriver;
      });
    })"""
    given = [drawn(seed) for seed in range(10_000, 10_400)]
    for trace, found in zip(given, javascript(expression, given), strict=True):
        assert all(found), (trace, found)


def test_own_actions_go_on_from_the_step_at_which_they_are_added(javascript):
    a, b, c, x, y, z = ({"kind": "malloc", "bytes": size, "name": "n"} for size in range(1, 7))
    given = [[a, b, c], x, y, z]
    assert javascript("m.sequence(given[0], m.withOwn({}, 2, given[1]))", given) == [a, b, x]
    two = "m.withOwn(m.withOwn({}, 2, given[1]), 3, given[2])"
    assert javascript(f"m.sequence(given[0], {two})", given) == [a, b, x, y]
    assert javascript(f"m.sequence(given[0], m.withOwn({two}, 3, given[3]))", given) == [a, b, x, z]
    assert javascript(f"m.sequence(given[0], m.withOwn({two}, 1, given[3]))", given) == [a, z]
    assert javascript("m.sequence(given[0], {})", given) == [a, b, c]


def test_thin_blocks_are_widened_and_all_widths_fill_the_bar(browser):
    with imported(browser, "allocator_blocks/picture.js") as evaluate:
        found = evaluate(
            "() => [m.widths([512, 1 << 20, 512], 300), m.widths(Array(100).fill(512), 300), m.widths([1, 3], 300)]"
        )
    assert (
        found[0] == pytest.approx([12, 276, 12])
        and found[1] == pytest.approx([3] * 100)
        and found[2] == pytest.approx([75, 225])
    )


def test_sizes_are_told_exactly_or_to_two_decimals(browser):
    with imported(browser, "allocator_blocks/words.js") as evaluate:
        sizes = [1, 700, 1024, 1536, MIB, MIB + 1, MIB + 512, 5 * MIB, (5 * MIB) // 2, 80 << 30]
        exact, about = evaluate("(sizes) => [sizes.map(m.exact), sizes.map(m.about)]", sizes)
    assert exact == [
        "1 B",
        "700 B",
        "1 KiB",
        "1.5 KiB",
        "1 MiB",
        "1,048,577 B",
        "1024.5 KiB",
        "5 MiB",
        "2.5 MiB",
        "80 GiB",
    ]
    assert about == ["1 B", "700 B", "1 KiB", "1.5 KiB", "1 MiB", "1 MiB", "1 MiB", "5 MiB", "2.5 MiB", "80 GiB"]


def memory_history():
    """(malloc or free, bytes of the block) of the recorded model's two steps as PyTorch's memory history tells them."""
    with torch.random.fork_rng(devices=[]), gpulab.cuda.use("virtual:H100", quiet=True):
        torch.cuda.memory._record_memory_history()
        model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        batch, targets = torch.randn(256, 512, device="cuda"), torch.randint(512, (256,), device="cuda")

        def step():
            loss = torch.nn.functional.cross_entropy(model(batch), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        reserved = torch.cuda.memory_reserved()
        step()
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
        counters = [
            torch.cuda.memory_stats()[f"{name}_bytes.all.current"] for name in ("requested", "allocated", "reserved")
        ]
        torch.cuda.memory._record_memory_history(None)
    assert counters[2] == reserved
    first = entries[0]["addr"]
    kept = [entry for entry in entries if entry["action"] in ("alloc", "free_completed")]
    return [(entry["action"], entry["addr"] - first, entry["size"]) for entry in kept], counters


def test_the_recorded_steps_are_those_of_pytorchs_memory_history():
    entries, counters = memory_history()
    trace = training_step()
    card, found = Card(trace.capacity), []
    for number, action in enumerate(trace.actions):
        block = card.held[action["of"]] if action["kind"] == "free" else None
        assert card.act(action, number) is False
        block = block or card.held[number]
        size = round_up(trace.actions[action.get("of", number)]["bytes"])
        found.append(("free_completed" if action["kind"] == "free" else "alloc", block.address - card._start, size))
    assert found == entries
    assert card.looks(False)[1:4] == counters


def round_up(nbytes):
    return -(-nbytes // 512) * 512


def test_every_recorded_block_is_named_after_what_it_is_for():
    names = [action["name"] for action in training_step().actions if action["kind"] == "malloc"]
    gradients = {"gradient of linear2.weight", "gradient of output of gelu"}
    assert gradients | {"linear1.weight", "batch", "output of linear1", "exp_avg_sq of linear1.bias", "loss"} <= set(
        names
    )
    others = {name for name in names if name.startswith("a result of")}
    assert others == {
        f"a result of {op}"
        for op in ("_log_softmax", "nll_loss_forward", "nll_loss_backward", "ones_like", "_foreach_sqrt")
    }


def test_recording_leaves_the_readers_card_and_random_numbers_alone():
    with gpulab.cuda.use("virtual:A100", quiet=True):
        mine = torch.ones(1000, device="cuda")
        before = torch.random.get_rng_state(), torch.cuda.get_rng_state(), torch.cuda.memory_allocated()
        again = training_step.__wrapped__()
        after = torch.random.get_rng_state(), torch.cuda.get_rng_state(), torch.cuda.memory_allocated()
        assert gpulab.cuda.current() == "virtual:A100" and mine.sum().item() == 1000
    assert torch.equal(before[0], after[0]) and torch.equal(before[1], after[1]) and before[2] == after[2]
    assert again == training_step()


def last(name):
    """The state at the end of a written trace, and the failures on the way."""
    states = due(WRITTEN[name].plain())
    return states[-1], [state[0] for state in states]


def test_the_written_traces_show_what_they_are_for():
    _, failed = last("fragmentation")
    assert [number for number, each in enumerate(failed) if each] == [12]
    (_, requested, allocated, reserved, segments), failed = last("lengths that grow")
    assert allocated == reserved == 12 * MIB and not any(failed)
    assert max(state[3] for state in due(WRITTEN["lengths that grow"].plain())) == (12 + 22 + 24 + 26 + 28 + 30) * MIB
    given_back = due(WRITTEN["what empty_cache returns"].plain())
    assert [state[3] // MIB for state in given_back] == [24, 44, 44, 46, 46, 46, 22, 22, 2, 32, 32, 42]


def test_a_statement_that_is_no_action_is_refused():
    with pytest.raises(ValueError, match="no action of a trace"):
        written("", MIB, "a = 3 pages")
    with pytest.raises(KeyError):
        written("", MIB, "del a")


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def told(page):
    return page.locator(".status").inner_text()


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def test_next_walks_to_the_failure_and_says_why(mount):
    page = mount(AllocatorBlocks("fragmentation"))
    assert told(page) == "Nothing is reserved. 16 actions."
    for _ in range(13):
        press(page, "Next")
    text = page.locator(".status.bad").inner_text()
    assert text.startswith("Action 13 of 16: malloc of 8 MiB for i. Out of memory.")
    assert "the card has 0 B left for a segment of 20 MiB" in text
    assert text.endswith("Yet 20 MiB lie free in segments, in 4 blocks of at most 5 MiB: fragmentation.")
    assert shown(page, "largest free block") == "5,242,880 B (5 MiB)"
    press(page, "Next")
    assert told(page).endswith(
        "No segment is wholly free: nothing goes back. 2 segments with live blocks stay, and 20 MiB free in them."
    )
    press(page, "Next")
    assert told(page).endswith("It is merged with the free blocks behind and in front into one of 15 MiB.")


@pytest.mark.parametrize(
    ("trace", "step", "says"),
    [
        (
            "rounding and pools",
            1,
            "It is rounded up to 512 B. "
            "No free block of the small pool holds it: a new segment of 2 MiB comes from the driver.",
        ),
        (
            "rounding and pools",
            10,
            "It is rounded up to 11264.5 KiB. "
            "No free block of the large pool holds it: a new segment of 12 MiB comes from the driver. "
            "The block is not split, because a rest of 1023.5 KiB is not more than 1 MiB: all its 12 MiB count as allocated.",
        ),
        (
            "split and merge",
            7,
            "The large pool has it: the smallest free block that fits has 6 MiB, in segment 1. "
            "The block is not split, because a rest of 1 MiB is not more than 1 MiB: all its 6 MiB count as allocated.",
        ),
        ("split and merge", 8, "It is merged with the free block in front into one of 12 MiB."),
        ("split and merge", 10, "Segment 1 is wholly free and stays reserved."),
        ("split and merge", 11, "The block is split: 8 MiB behind it stay free."),
        (
            "what empty_cache returns",
            7,
            "1 wholly free segment (24 MiB) goes back to the driver. "
            "2 segments with live blocks stay, and 17.9 MiB free in them.",
        ),
        (
            "what empty_cache returns",
            12,
            "No free block of the large pool holds it, and the card had no room for a new segment of 40 MiB: "
            "1 wholly free segment (30 MiB) went back to the driver first. It is used whole.",
        ),
    ],
)
def test_each_kind_of_event_has_its_words(mount, trace, step, says):
    assert says in told(mount(AllocatorBlocks(trace, step)))


def test_the_counters_are_those_of_the_recorded_card(mount):
    page = mount(AllocatorBlocks(RECORDED, 999))
    _, counters = memory_history()
    for name, value in zip(("requested", "allocated", "reserved"), counters):
        assert shown(page, name).startswith(f"{value:,} B")
    assert page.locator("svg rect.live").count() == 4 + 8 + 2


def test_a_reader_mallocs_frees_and_goes_back(mount):
    page = mount(AllocatorBlocks("split and merge", 4))
    page.get_by_label("size").fill("1.5")
    press(page, "malloc")
    assert told(page).startswith(
        "Action 5 of 5: malloc of 1.5 MiB for yours 1. No free block of the large pool holds it: a new segment of 20 MiB"
    )
    page.get_by_label("block", exact=True).select_option("b, 4 MiB")
    assert (
        page.locator(".detail").inner_text()
        == "b: 4 MiB asked for, a block of 4 MiB, 8 MiB from the start of segment 1."
    )
    press(page, "free")
    assert told(page).startswith("Action 6 of 6: free of b. Its block of 4 MiB goes back to the pool.")
    press(page, "empty_cache()")
    assert "No segment is wholly free" in told(page)
    press(page, "Back to the trace")
    assert page.evaluate("[model.get('step'), model.get('own')]") == [4, {}]
    press(page, "Next")
    assert told(page).startswith("Action 5 of 11: free of a.")


def test_a_press_on_a_block_chooses_it(mount):
    page = mount(AllocatorBlocks("split and merge", 4))
    page.locator("svg rect.live").nth(2).click()
    assert page.locator(".detail").inner_text().startswith("c: 6 MiB asked for")
    assert page.locator("svg rect.chosen").count() == 1
    press(page, "free")
    assert told(page).startswith("Action 5 of 5: free of c.")


def test_the_keyboard_alone_mallocs_and_frees(mount):
    page = mount(AllocatorBlocks("fragmentation"))
    page.get_by_label("size").focus()
    page.keyboard.press("Enter")
    page.get_by_label("block", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert told(page).startswith("Action 2 of 2: free of yours 1.")
    page.keyboard.press("Enter")
    assert told(page).startswith("Action 2 of 2")
    page.get_by_role("slider", name="Action").press("Home")
    assert told(page) == "Nothing is reserved. 2 actions."


@pytest.mark.parametrize("size", ["", "0", "-3", "1e30"])
def test_a_size_that_is_none_changes_nothing(mount, size):
    page = mount(AllocatorBlocks())
    page.get_by_label("size").fill(size)
    press(page, "malloc")
    assert page.evaluate("model.get('own')") == {}


def test_play_runs_and_another_trace_begins_again(mount):
    page = mount(AllocatorBlocks())
    press(page, "Play")
    page.wait_for_function("model.get('step') > 0")
    page.get_by_label("trace").select_option(RECORDED)
    assert page.evaluate("model.get('step')") == 0
    press(page, "Next")
    assert told(page).startswith(
        f"Action 1 of {len(training_step().actions)} (before the first step): malloc of 4 MiB for linear1.weight."
    )


def test_the_picture_keeps_its_height_while_a_trace_is_stepped_through(mount):
    page = mount(AllocatorBlocks("fragmentation"))
    heights = set()
    for _ in range(14):
        heights.add(page.locator("#widget").evaluate("e => e.offsetHeight"))
        press(page, "Next")
    assert len(heights) == 1


@pytest.mark.parametrize("width", [800, 390])
def test_the_longest_sentences_have_their_room(mount, width):
    page = mount(AllocatorBlocks(), width=width)
    for name, trace in traces().items():
        page.get_by_label("trace").select_option(name)
        heights = page.evaluate(
            """(last) => Array.from({ length: last + 1 }, (_, step) => {
          model.set("step", step);
          return document.querySelector("#widget").offsetHeight;
        })""",
            len(trace.actions),
        )
        assert len(set(heights)) == 1, (name, heights)


def test_python_moves_it(mount):
    page = mount(AllocatorBlocks())
    page.evaluate("model.set('step', 3)")
    assert told(page).startswith("Action 3 of 11")


def test_no_path_of_this_machine_is_in_the_page():
    assert not re.search(r"/(home|tmp|usr|root)/|\.py", str(AllocatorBlocks().traces))


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    for options in ({}, {"trace": "fragmentation", "step": 13}, {"trace": RECORDED, "step": 40}):
        assert_accessible(mount(AllocatorBlocks(**options), width=width, scheme=scheme), width)


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match="trace is one of"):
        AllocatorBlocks("a leak")
    with pytest.raises(ValueError, match="0 or more"):
        AllocatorBlocks(step=-1)
