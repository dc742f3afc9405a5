"""A mesh over nodes of eight: groups are those of PyTorch's DeviceMesh, and the reader finds which dimension crosses."""

import random

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from gpulab.collectives import structure
from gpulab.parallel import mesh_groups
from gpulab.widgets import MeshPainter
from gpulab.widgets.mesh_painter import DIMENSIONS, NODE, ORDERS, WORLD
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

javascript = functions_of("mesh_painter/model.js")


def random_widgets(count):
    rng = random.Random(0)
    for _ in range(count):
        tp, pp = rng.choice([(tp, pp) for tp in (1, 2, 4, 8, 16) for pp in (1, 2, 4, 8, 16) if tp * pp <= WORLD])
        yield MeshPainter(pp, tp, rng.choice(ORDERS), rng.randrange(WORLD))


def test_the_browsers_groups_are_pythons(javascript):
    for widget in random_widgets(30):
        expected = {
            name: [next(ranks for ranks in groups if rank in ranks) for rank in range(WORLD)]
            for name, groups in mesh_groups(widget.sizes).items()
        }
        expression = "Object.fromEntries(given.map(([name]) => [name, Array.from({ length: 64 }, (_, rank) => m.group(given, name, rank))]))"
        sizes = [list(pair) for pair in widget.sizes.items()]
        assert javascript(expression, sizes) == expected
        spread = {
            name: max(len({rank // NODE for rank in ranks}) for ranks in groups)
            for name, groups in mesh_groups(widget.sizes).items()
        }
        assert (
            javascript("Object.fromEntries(given.map(([name]) => [name, m.mostNodes(given, name, 64, 8)]))", sizes)
            == spread
        )


def a_rank_of_the_mesh(rank, world, sizes):
    mesh = init_device_mesh("cuda", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    groups = {name: dist.get_process_group_ranks(mesh[name].get_group()) for name in sizes}
    return dict(zip(sizes, mesh.get_coordinate(), strict=True)), groups


def test_the_browsers_groups_are_pytorchs(javascript):
    for widget in (MeshPainter(), MeshPainter(2, 8, "pp dp tp", 37)):
        ((coordinate, groups),) = structure(
            a_rank_of_the_mesh, WORLD, ranks=(widget.rank,), args=(widget.sizes,)
        ).results
        given = [[list(pair) for pair in widget.sizes.items()], widget.rank]
        assert javascript("m.coordinate(...given)", given) == coordinate
        assert (
            javascript("Object.fromEntries(given[0].map(([name]) => [name, m.group(given[0], name, given[1])]))", given)
            == groups
        )


def gpu(page, rank):
    return page.locator(f'button[data-rank="{rank}"]')


def test_rank_13_of_the_notes_mesh(mount):
    page = mount(MeshPainter())
    assert gpu(page, 13).get_attribute("aria-label") == "rank 13, node 1: tp 1, pp 2, dp 1"
    assert page.locator("tbody tr").all_inner_texts()[0].split() == ["tp", "2", "1", "1", "12", "13", "1"]
    assert [page.locator(f".gpu.{name}").count() for name in DIMENSIONS] == [7, 3, 1]
    assert "Tensor parallelism stays inside the node" in page.locator(".verdict").inner_text()


def test_tensor_parallelism_crosses_where_it_is_outermost_or_larger_than_a_node(mount):
    page = mount(MeshPainter())
    page.get_by_label("order").select_option("tp pp dp")
    assert "Make tp the innermost dimension" in page.locator(".verdict").inner_text()
    page.get_by_label("order").select_option("dp pp tp")
    page.get_by_role("slider", name="tp").press("End")
    assert page.evaluate("[model.get('tp'), model.get('pp')]") == [16, 4]
    assert "16 ranks have no room on a node of 8" in page.locator(".verdict").inner_text()
    page.get_by_role("slider", name="pp").press("End")
    assert page.evaluate("model.get('pp')") == 4 and page.locator(".product").inner_text() == "dp 1 × pp 4 × tp 16 = 64"


def test_the_arrow_keys_go_from_gpu_to_gpu_and_end_at_the_edge(mount):
    page = mount(MeshPainter(rank=0))
    gpu(page, 0).focus()
    for key in ("ArrowUp", "ArrowLeft", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert page.evaluate("[model.get('rank'), document.activeElement.dataset.rank]") == [9, "9"]
    gpu(page, 63).click()
    assert page.locator("caption").inner_text() == "Rank 63, GPU 7 of node 7, of 64"


def test_every_gpu_is_painted_by_a_coordinate_and_says_which(mount):
    page = mount(MeshPainter(paint="pp"))
    assert [gpu(page, rank).locator("small").inner_text() for rank in (0, 2, 4, 6, 8)] == [
        "pp0",
        "pp1",
        "pp2",
        "pp3",
        "pp0",
    ]
    page.evaluate("model.set('paint', 'tp')")
    assert gpu(page, 0).locator("small").inner_text() == "tp0"


@pytest.mark.parametrize("width", [1100, 390])
def test_a_choice_moves_nothing_below_the_rack(mount, width):
    page = mount(MeshPainter(), width=width)
    tops = set()
    for order in ORDERS:
        page.get_by_label("order").select_option(order)
        tops.add(page.locator(".note").bounding_box()["y"])
    assert len(tops) == 1


def test_jupyterlab_leaves_the_keys_to_the_widget(mount):
    page = mount(MeshPainter())
    assert (
        page.locator("#widget :is(input, button, select)").count()
        == page.locator("#widget [data-lm-suppress-shortcuts=true]").count()
        == 68
    )


def test_a_reader_without_a_script_sees_every_order():
    page = still_of(MeshPainter())
    assert "tp pp dp" in page and "8 nodes" in page


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(MeshPainter(), width=width, scheme=scheme), width)


def test_what_is_no_mesh_is_refused():
    for wrong in ({"pp": 3}, {"tp": 32}, {"pp": 16, "tp": 8}, {"order": "tp dp"}, {"rank": 64}, {"paint": "ep"}):
        with pytest.raises(ValueError):
            MeshPainter(**wrong)
