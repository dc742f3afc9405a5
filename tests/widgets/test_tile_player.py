"""The tile player: it replays a real trace, its counts are the launch's, and it needs no kernel."""

import pytest
import torch

from gpulab import observe
from gpulab.kernels import cuda, float32, trace
from gpulab.widgets import TilePlayer
from gpulab.widgets._source import module
from tests.widgets.looks import assert_accessible, in_every_look

TILE, SIZE = 4, 8
SHAPES = {"a": (SIZE, SIZE), "b": (SIZE, SIZE), "a_tile": (TILE, TILE), "b_tile": (TILE, TILE), "c": (SIZE, SIZE)}


@cuda.jit
def multiply_tiles(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        a_tile[y, x] = a[row, start + x]
        b_tile[y, x] = b[start + y, column]
        cuda.syncthreads()
        for i in range(TILE):
            total += a_tile[y, i] * b_tile[i, x]
        cuda.syncthreads()
    c[row, column] = total


@pytest.fixture(scope="module")
def traced():
    a, b, c = torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE), torch.empty(SIZE, SIZE)
    with trace(block=1) as steps, observe() as seen:
        multiply_tiles[(2, 2), (TILE, TILE)](a, b, c)
    return steps, seen.launches[0]


@pytest.fixture
def player(traced):
    return TilePlayer(traced[0], SHAPES, "Block 1 of `multiply_tiles`")


def shown(page, name):
    return int(page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text())


def test_the_counts_at_the_end_are_the_launches(mount, player, traced):
    page, launch = mount(player), traced[1]
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    blocks, threads = 4, TILE * TILE
    assert shown(page, "loaded from global memory") * blocks == launch.total("loads") == 2 * SIZE**3 // TILE
    assert shown(page, "stored to global memory") * blocks == launch.total("stores")
    assert shown(page, "read from shared memory") == 2 * threads * SIZE


def test_counts_and_marks_follow_the_frames(browser, player):
    frames = player.trace["frames"]
    context = browser.new_context()
    page = context.new_page()
    page.set_content("<title>frames</title>")
    found = page.evaluate(
        """async ([text, frames]) => { const m = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
        return frames.map((_, at) => [m.countsAt(frames, at), Object.entries(m.marksAt(frames, at)).map(
          ([name, k]) => [name, [...k.reads], [...k.writes], [...k.before]])]); }""",
        [module("tile_player/frames.js"), frames],
    )
    context.close()
    before = {}
    for at, (counts, marks) in enumerate(found):
        done = [touch for frame in frames[: at + 1] for touch in frame["touches"]]
        loads = sum(len(t["cells"]) for t in done if t["space"] == "global" and not t["store"])
        assert counts["loads"] == loads
        for name, reads, writes, earlier in marks:
            now = [t for t in frames[at]["touches"] if t["array"] == name]
            assert set(reads) == {c for t in now if not t["store"] for c in t["cells"]}
            assert set(writes) == {c for t in now if t["store"] for c in t["cells"]}
            assert set(earlier) == before.get(name, set())
        for touch in frames[at]["touches"]:
            before.setdefault(touch["array"], set()).update(touch["cells"])


def test_the_block_loads_its_own_tiles(player):
    first = player.trace["frames"][0]["touches"]
    assert [touch["array"] for touch in first] == ["a", "a_tile"]
    assert first[0]["cells"] == [SIZE * y + x for y in range(TILE) for x in range(TILE)]
    second = player.trace["frames"][1]["touches"][0]
    assert second["cells"] == [SIZE * y + TILE + x for y in range(TILE) for x in range(TILE)]


def test_it_steps_by_keyboard_and_names_the_barrier(mount, player):
    page = mount(player)
    assert (
        "reads one element of a (global); each thread writes one element of a_tile"
        in page.locator(".status").inner_text()
    )
    page.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert "all 16 threads of the block wait for each other" in page.locator(".status").inner_text()
    page.keyboard.press("Enter")
    assert "4 different ones" in page.locator(".status").inner_text()
    assert page.locator(".array .cell.read").count() == 8 and page.evaluate("model.get('step')") == 4


def test_it_plays_to_the_end_and_stops(mount, traced):
    last = len(TilePlayer(traced[0], SHAPES).trace["frames"])
    page = mount(TilePlayer(traced[0], SHAPES, step=last - 1))
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"model.get('step') === {last}")
    page.get_by_role("button", name="Play").wait_for()


def test_python_moves_it(mount, player):
    page = mount(player)
    page.evaluate("model.set('step', 3)")
    assert "Step 3 of" in page.locator(".status").inner_text()


@in_every_look
def test_axe_finds_nothing(mount, traced, scheme, width):
    page = mount(TilePlayer(traced[0], SHAPES, step=4), width=width, scheme=scheme)
    assert_accessible(page, width)


def test_no_path_of_this_machine_is_in_the_page(player):
    assert __file__ not in str(player.trace)


def test_what_cannot_be_drawn_is_refused(traced):
    with pytest.raises(ValueError, match="expected shapes"):
        TilePlayer(traced[0], {"a": (SIZE, SIZE)})
    with pytest.raises(ValueError, match="does not hold element"):
        TilePlayer(traced[0], {**SHAPES, "a_tile": (2, 2)})
    with pytest.raises(ValueError, match="step 99"):
        TilePlayer(traced[0], SHAPES, step=99)
    with trace() as steps:
        pass
    with pytest.raises(ValueError, match="0 steps"):
        TilePlayer(steps, {})
