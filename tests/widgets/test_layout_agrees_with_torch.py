"""The browser's arithmetic is torch's: the same views go to both, and both must say the same."""

import itertools
import random

import pytest
import torch

from gpulab.widgets import StrideExplorer
from gpulab.widgets._source import module

VIEWS = 1500


FILES = [("shared", "random"), *(("stride_explorer", name) for name in ("layout", "presets", "puzzles", "facts"))]


@pytest.fixture(scope="module")
def javascript(browser):
    """javascript(expression, argument): evaluates with the module's functions in scope as `m`."""
    context = browser.new_context()
    page = context.new_page()
    page.set_content("<title>layout</title>")
    page.evaluate(
        """async (sources) => {
          for (const [name, text] of Object.entries(sources)) {
            const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
            window[name] = await import(url);
          }
        }""",
        {name: module(f"{folder}/{name}.js") for folder, name in FILES},
    )
    yield page.evaluate
    context.close()


def random_view(rng):
    """Sizes, strides, offset: zeros, ones, broadcasts, overlaps and ordinary layouts alike."""
    size = [rng.choice([0, 1, 1, 2, 2, 3, 4, 5]) for _ in range(rng.randint(0, 4))]
    if rng.random() < 0.4:
        return size, [rng.randint(0, 12) for _ in size], rng.randint(0, 5)
    x = torch.empty_strided(size, torch.empty(size, device="meta").stride(), device="meta")
    if size and rng.random() < 0.6:
        x = x.permute(rng.sample(range(len(size)), len(size)))
    if size and rng.random() < 0.4:
        d = rng.randrange(len(size))
        x = x.unfold(d, x.shape[d], 1).squeeze(d) if x.shape[d] else x
    if x.dim() and rng.random() < 0.4:
        d = rng.randrange(x.dim())
        x = x[(slice(None),) * d + (slice(None, None, 2),)]
    if x.dim() < 4 and rng.random() < 0.3:
        x = x.expand(2, *x.shape)
    return list(x.shape), list(x.stride()), rng.randint(0, 3)


def random_shape(rng, count):
    """A shape of about `count` elements: factors, ones, a -1, sometimes nonsense."""
    shape, rest = [], count
    while rest > 1 and rng.random() < 0.8:
        factor = rng.choice([f for f in range(1, rest + 1) if rest % f == 0])
        shape.append(factor)
        rest //= factor
    shape.append(rest)
    rng.shuffle(shape)
    if rng.random() < 0.3:
        shape[rng.randrange(len(shape))] = -1
    if rng.random() < 0.1:
        shape.insert(rng.randint(0, len(shape)), rng.choice([-1, -2, 0, 3, 1]))
    return shape


def message(error):
    return str(error).split("\n")[0].strip()


def as_strided(size, stride, offset, cells):
    try:
        torch.arange(cells).as_strided(size, stride, offset)
    except RuntimeError as error:
        return message(error)
    return None


def view(x, shape):
    try:
        seen = x.view(shape)
    except RuntimeError as error:
        return {"error": message(error)}
    return {"size": list(seen.shape), "stride": list(seen.stride())}


@pytest.fixture(scope="module")
def views():
    rng = random.Random(20)
    return [random_view(rng) for _ in range(VIEWS)]


def test_addresses_are_where_torch_reads(javascript, views):
    got = javascript(
        "(views) => views.map(([size, stride, offset]) =>"
        " layout.indices(size).map((i) => layout.address(i, stride, offset)))",
        views,
    )
    for (size, stride, offset), addresses in zip(views, got, strict=True):
        assert addresses == torch.arange(500).as_strided(size, stride, offset).flatten().tolist()


def test_contiguity_is_torchs(javascript, views):
    got = javascript(
        "(views) => views.map(([size, stride]) => [layout.isContiguous(size, stride), layout.isChannelsLast(size, stride)])",
        views,
    )
    answers = set()
    for (size, stride, offset), (contiguous, channels_last) in zip(views, got, strict=True):
        x = torch.arange(500).as_strided(size, stride, offset)
        assert contiguous == x.is_contiguous(), (size, stride)
        nhwc = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
        assert channels_last == nhwc, (size, stride)
        answers |= {(contiguous, channels_last)}
    assert len(answers) == 4, "the random views must show all four answers"


def test_contiguous_strides_are_torchs(javascript):
    sizes = [list(s) for n in range(4) for s in itertools.product(range(4), repeat=n)]
    got = javascript("(sizes) => sizes.map(layout.contiguousStride)", sizes)
    assert got == [list(torch.empty(size).stride()) for size in sizes]


def test_storage_bounds_fail_with_torchs_message(javascript, views):
    rng = random.Random(21)
    cases = [(*v, rng.randint(1, 40)) for v in views] + [([2, 2], [-1, 2], 3, 9), ([2], [1], -1, 9)]
    got = javascript("(cases) => cases.map((c) => layout.asStridedError(...c))", cases)
    assert got == [as_strided(*case) for case in cases]
    assert None in got and sum(g is not None for g in got) > 100


def test_view_succeeds_or_fails_as_torchs(javascript, views):
    rng = random.Random(22)
    cases = [(size, stride, random_shape(rng, torch.Size(size).numel())) for size, stride, _ in views]
    got = javascript("(cases) => cases.map((c) => layout.view(...c))", cases)
    for (size, stride, shape), answer in zip(cases, got, strict=True):
        assert answer == view(torch.arange(500).as_strided(size, stride), shape), (size, stride, shape)
    errors = {g["error"][:12] for g in got if "error" in g}
    assert len(errors) >= 5 and sum("size" in g for g in got) > 300


def test_puzzles_have_torchs_answers(javascript):
    puzzles = javascript(
        "(n) => Array.from({ length: n }, (_, seed) => puzzles.puzzle(random.generator(seed + 1)))", 600
    )
    for p in puzzles:
        x = eval(p["code"], {"torch": torch})  # the puzzle's own words, run
        assert [list(x.shape), list(x.stride()), x.storage_offset()] == [p["size"], p["stride"], p["offset"]]
        assert p["answer"] == puzzle_answer(x, p), p
    seen = {(p["kind"], p["answer"]) for p in puzzles if p["kind"] != "address"}
    assert seen == set(itertools.product(["contiguous", "viewable"], [True, False]))


def puzzle_answer(x, p):
    if p["kind"] == "address":
        return x[tuple(p["index"])].item()
    if p["kind"] == "contiguous":
        return x.is_contiguous()
    return "size" in view(x, (-1,))


def test_a_puzzles_reason_names_the_dimensions_that_do_not_merge(javascript):
    puzzles = javascript(
        "(n) => Array.from({ length: n }, (_, seed) => puzzles.puzzle(random.generator(seed + 1)))", 600
    )
    for p in puzzles:
        if p["kind"] == "viewable":
            assert p["why"].startswith("To merge") == (not p["answer"]), p


def test_a_typed_shape_is_read_as_python_would(javascript):
    typed = {"-1": [-1], "2, 3": [2, 3], "(2,3)": [2, 3], " ( 6, ) ": [6], "": [], "()": [], "a": None, "2 3": None}
    assert javascript("(t) => t.map(facts.parseShape)", list(typed)) == list(typed.values())


def test_the_view_on_show_is_a_tensor():
    x = StrideExplorer((3, 2), (1, 3)).tensor()
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    "bad, words",
    [
        (dict(shape=(2, 3), stride=(1,)), "differ in length"),
        (dict(shape=(9, 9)), "too large"),
        (dict(shape=(1,) * 5), "too large"),
        (dict(shape=(2,), stride=(-1,)), "no negative strides"),
        (dict(shape=(2,), storage=65), "holds 1 to 64"),
    ],
)
def test_a_view_that_the_picture_cannot_hold_is_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        StrideExplorer(**bad)


PRESETS = {
    "contiguous": torch.arange(6).view(2, 3),
    "t()": torch.arange(6).view(2, 3).t(),
    "[:, ::2]": torch.arange(12).view(3, 4)[:, ::2],
    "[1:]": torch.arange(12).view(3, 4)[1:],
    "expand": torch.arange(3).view(3, 1).expand(3, 4),
    "unfold": torch.arange(8).unfold(0, 4, 2),
    "patches": torch.arange(16).view(4, 4).unfold(0, 2, 2).unfold(1, 2, 2),
    "channels_last": torch.arange(24).view(1, 2, 4, 3).permute(0, 3, 1, 2),
}


def test_presets_are_the_views_they_are_named_for(javascript):
    shown = {preset["name"]: preset for preset in javascript("() => presets.PRESETS")}
    assert list(shown) == list(PRESETS)
    for name, x in PRESETS.items():
        layout = list(x.shape), list(x.stride()), x.storage_offset(), x.untyped_storage().nbytes() // 8
        assert layout == tuple(shown[name][key] for key in ("size", "stride", "offset", "cells"))
