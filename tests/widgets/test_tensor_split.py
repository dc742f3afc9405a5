"""An MLP cut over ranks: the collectives are those of PyTorch's tensor parallelism, and the browser counts as Python does."""

import itertools
import random
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from gpulab.collectives import run_ranks
from gpulab.widgets import TensorSplit
from gpulab.widgets.tensor_split import CUTS, RANKS, TIMES, TOKENS, WIDTHS
from gpulab.widgets.tensor_split.layouts import Cut, crossings, held, sent
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

EVERY = [Cut(*cut) for cut in itertools.product(CUTS, CUTS, (False, True), (False, True))]
TOKENS_, WIDTH, HIDDEN = 24, 8, 32


javascript = functions_of("tensor_split/model.js")


def plan(cut: Cut) -> dict:
    """The same cut, as PyTorch is told it."""
    ends = Shard(0) if cut.sequence else Replicate()
    between = Replicate() if cut.first == "rows" or cut.gather else Shard(-1)
    kinds = {"columns": ColwiseParallel, "rows": RowwiseParallel}
    return {
        "0": kinds[cut.first](input_layouts=ends, output_layouts=between),
        "2": kinds[cut.second](input_layouts=between, output_layouts=ends),
    }


def a_step(rank, world, cut):
    """Whether the output is that of one process. PyTorch has no all-to-all between CPUs, so the ranks have cards."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    layers = torch.nn.Linear(WIDTH, HIDDEN, bias=False), torch.nn.GELU(), torch.nn.Linear(HIDDEN, WIDTH, bias=False)
    model, x = torch.nn.Sequential(*layers), torch.randn(TOKENS_, WIDTH)
    alone = model(x).detach()
    model = parallelize_module(model.cuda(), init_device_mesh("cuda", (world,)), plan(cut))
    mine = (x.chunk(world)[rank] if cut.sequence else x).cuda().requires_grad_()
    dist.barrier(device_ids=[0])
    y = model(mine)
    dist.barrier(device_ids=[0])
    y.sum().backward()
    return torch.allclose(y.cpu(), alone.chunk(world)[rank] if cut.sequence else alone, atol=1e-5)


@pytest.mark.parametrize("cut", EVERY, ids=str)
def test_the_collectives_are_those_of_pytorchs_tensor_parallelism(cut):
    run = run_ranks(a_step, 4, args=(cut,))
    assert run.results == [True] * 4
    first, second = (i for i, entry in enumerate(run.journal) if entry.operation == "barrier")
    passes = {"forward": run.journal[first + 1 : second], "backward": run.journal[second + 1 :]}
    for passing, entries in passes.items():
        expected = [one for one in crossings(cut) if one.passing == passing]
        sizes = [
            4 * TOKENS_ * (HIDDEN if one.tensor == "z" else WIDTH) // (4 if one.kind == "all_to_all" else 1)
            for one in expected
        ]
        assert [(e.operation, e.bytes) for e in entries] == [
            (one.kind, size) for one, size in zip(expected, sizes, strict=True)
        ]


def test_columns_then_rows_need_one_all_reduce_a_pass_and_nothing_else():
    least = [(one.passing, one.kind) for one in crossings(Cut())]
    assert least == [("forward", "all_reduce"), ("backward", "all_reduce")]
    assert all(len(crossings(cut)) > 2 for cut in EVERY if cut != Cut())


def in_all(cut, shape):
    return sum(sent(one, *shape) for one in crossings(cut))


def test_splitting_the_tokens_sends_the_same_bytes_and_holds_fewer():
    shape = (8192, 4096, 16384, 8)
    assert in_all(Cut(sequence=True), shape) == in_all(Cut(), shape)
    assert held(Cut(sequence=True), *shape)["x and y"] == held(Cut(), *shape)["x and y"] / 8


def random_shape(rng):
    width = rng.choice(WIDTHS)
    return {"tokens": rng.choice(TOKENS), "width": width, "hidden": TIMES * width, "ranks": rng.choice(RANKS)}


def told(cut):
    return {"first": cut.first, "second": cut.second, "gather": cut.gather, "sequence": cut.sequence}


def test_the_browser_counts_what_python_counts(javascript):
    rng = random.Random(0)
    given = [(cut, random_shape(rng)) for cut in EVERY for _ in range(4)]
    found = javascript(
        "given.map(([cut, shape]) => [m.crossings(cut), m.total(cut, shape), m.held(cut, shape)])",
        [[told(c), s] for c, s in given],
    )
    for (cut, shape), (crossed, bytes_sent, memory) in zip(given, found, strict=True):
        assert [(one["tensor"], one["passing"], one["kind"]) for one in crossed] == [
            (o.tensor, o.passing, o.kind) for o in crossings(cut)
        ]
        assert bytes_sent == pytest.approx(in_all(cut, tuple(shape.values()))) and memory == pytest.approx(
            held(cut, *shape.values())
        )


def rows(page):
    return page.locator(".crossings tbody tr").all_inner_texts()


def test_the_reader_finds_the_cut_that_needs_least(mount):
    page = mount(TensorSplit())
    assert len(rows(page)) == 5 and "so it is gathered" in page.locator(".verdict").inner_text()
    page.get_by_label("B", exact=True).select_option("rows")
    assert [row.split() for row in rows(page)] == [
        ["forward", "y", "all-reduce", "96", "MiB"],
        ["backward", "x", "all-reduce", "96", "MiB"],
        ["both", "2", "192", "MiB"],
    ]
    assert "nothing crosses between" in page.locator(".verdict").inner_text()
    page.get_by_role("button", name="x and y split").press("Enter")
    assert [row.split()[2] for row in rows(page)[:4]] == [
        "all-gather",
        "reduce-scatter",
        "all-gather",
        "reduce-scatter",
    ]
    assert rows(page)[-1].split()[-2:] == ["192", "MiB"]


def test_the_figures_gather_is_named_for_what_it_is(mount):
    page = mount(TensorSplit(second="rows", gather=True))
    assert "gathered and thrown away" in page.locator(".verdict").inner_text()
    page.get_by_role("button", name="gather z").click()
    assert page.evaluate("model.get('gather')") is False and len(rows(page)) == 3


def test_the_picture_says_in_words_what_it_shows_and_has_a_stripe_for_each_rank(mount):
    page = mount(TensorSplit(second="rows", ranks=8))
    picture = page.locator(".picture").get_by_role("img")
    label = picture.get_attribute("aria-label")
    assert (
        "A in 8 parts by columns" in label and "x whole on every rank" in label and "forward: all-reduce of y" in label
    )
    assert picture.locator(".part").count() == 3 * 8
    assert picture.locator(".tag").all_text_contents() == ["AR", "AR"]


def test_it_is_moved_by_keyboard_and_from_python(mount):
    page = mount(TensorSplit())
    page.get_by_role("slider", name="ranks").press("Home")
    assert page.evaluate("model.get('ranks')") == 2
    page.evaluate("model.set('second', 'rows')")
    assert page.get_by_label("B", exact=True).input_value() == "rows" and len(rows(page)) == 3
    assert page.locator("#widget :is(input, button, select)[data-lm-suppress-shortcuts=true]").count() == 7


@pytest.mark.parametrize("width", [1100, 390])
def test_a_choice_moves_nothing_below_it(mount, width):
    page = mount(TensorSplit(), width=width)
    tops = set()
    for first, second in itertools.product(CUTS, CUTS):
        page.get_by_label("A", exact=True).select_option(first)
        page.get_by_label("B", exact=True).select_option(second)
        tops.add(page.locator(".note").bounding_box()["y"])
    assert len(tops) == 1


def test_a_reader_without_a_script_sees_every_cut():
    page = still_of(TensorSplit())
    assert "A by columns, B by rows, z gathered" in page and "all-reduce of y, all-reduce of x" in page


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(TensorSplit(sequence=True, second="rows"), width=width, scheme=scheme), width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"first": "diagonal"}, {"second": ""}, {"ranks": 3}, {"tokens": 1}, {"width": 100}):
        with pytest.raises(ValueError, match="is one of"):
            TensorSplit(**wrong)
