"""The closed forms of gpulab.collectives.network against messages that are timed one by one."""

import pytest

from gpulab.collectives.network import Shape, hierarchical, in_switch_tree, pat, ring, rounds, tree
from gpulab.collectives.network.algorithms import direct, in_switch
from tests.collectives.steps import Wires, double_tree, doubling, pairwise, ring_steps, sums_by_ring, two_levels

ALPHA, BETA = 3e-6, 50e9
FLAT = (ALPHA, BETA)
SIZES = (0.0, 1e3, 1e6, 1e9)
LAPS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
def test_after_two_laps_less_two_hops_every_rank_holds_every_sum(ranks):
    assert sums_by_ring(ranks) == [[set(range(ranks))] * ranks] * ranks


@pytest.mark.parametrize("kind", LAPS)
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_a_ring_on_equal_links_takes_what_its_messages_take(kind, ranks):
    for nbytes in SIZES:
        simulated = Wires(ranks, FLAT).run(ring_steps(list(range(ranks)), nbytes, LAPS[kind] * (ranks - 1)))
        assert ring(kind, nbytes, Shape(1, ranks)).time_s(FLAT, FLAT) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize(("nodes", "each"), [(2, 2), (2, 4), (3, 2), (4, 3), (4, 1)])
def test_a_ring_over_nodes_has_the_latency_of_its_slowest_chunk(nodes, each):
    inside, between = (1e-6, BETA), (7e-6, BETA)
    for kind, laps in LAPS.items():
        messages = ring_steps(list(range(nodes * each)), 0.0, laps * (nodes * each - 1))
        simulated = Wires(each, inside, between).run(messages)
        assert ring(kind, 0.0, Shape(nodes, each)).time_s(inside, between) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize(("nodes", "each"), [(2, 2), (2, 4), (4, 2), (8, 1)])
def test_one_ring_over_nodes_takes_no_longer_than_the_sum_of_latencies_and_the_slow_link(nodes, each):
    inside, between = (1e-6, 400e9), (7e-6, 50e9)
    for nbytes in SIZES:
        messages = ring_steps(list(range(nodes * each)), nbytes, 2 * (nodes * each - 1))
        simulated = Wires(each, inside, between, ports=1).run(messages)
        closed = ring("all_reduce", nbytes, Shape(nodes, each)).time_s(inside, between)
        assert simulated * (1 - 1e-9) <= closed <= 2 * simulated
    assert closed <= 1.2 * simulated, "with many bytes it is the slow link that decides, and nothing else"


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_doubling_takes_what_its_messages_take(ranks):
    for nbytes in SIZES:
        simulated = Wires(1, FLAT, FLAT).run(doubling(ranks, nbytes))
        assert pat("all_gather", nbytes, Shape(ranks, 1)).time_s(FLAT, FLAT) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_two_trees_are_as_deep_as_the_closed_form_says(ranks):
    simulated = Wires(1, FLAT, FLAT).run(double_tree(ranks, 0.0, 1))
    assert tree("all_reduce", 0.0, Shape(ranks, 1)).time_s(FLAT, FLAT) == pytest.approx(simulated, rel=1e-9)
    assert rounds(ranks) == ranks.bit_length() - 1


@pytest.mark.parametrize("ranks", [3, 5, 6, 9])
def test_a_tree_over_any_number_is_no_deeper_than_the_closed_form_says(ranks):
    simulated = Wires(1, FLAT, FLAT).run(double_tree(ranks, 0.0, 1))
    closed = tree("all_reduce", 0.0, Shape(ranks, 1)).time_s(FLAT, FLAT)
    assert simulated <= closed * (1 + 1e-9) and closed - simulated < 2.1 * ALPHA


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_pieces_that_follow_each_other_through_two_trees_come_near_the_bandwidth_of_the_closed_form(ranks):
    nbytes, quick = 1e9, (1e-9, BETA)
    closed = tree("all_reduce", nbytes, Shape(ranks, 1)).time_s(quick, quick)
    coarse, fine = (Wires(1, quick, quick).run(double_tree(ranks, nbytes, pieces)) for pieces in (2, 12))
    assert closed * 0.999 <= fine <= coarse * 1.001
    assert fine <= 1.4 * closed


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_all_to_all_takes_what_its_messages_take(ranks):
    for nbytes in SIZES:
        simulated = Wires(ranks, FLAT).run(pairwise(ranks, nbytes))
        assert direct("all_to_all", nbytes, Shape(1, ranks)).time_s(FLAT, FLAT) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize(("nodes", "each"), [(2, 2), (2, 4), (4, 2)])
def test_two_levels_have_the_latency_of_their_three_phases(nodes, each):
    inside, between = (1e-6, BETA), (7e-6, BETA)
    simulated = Wires(each, inside, between).run(two_levels(nodes, each, 0.0, 1))
    assert hierarchical("all_reduce", 0.0, Shape(nodes, each)).time_s(inside, between) == pytest.approx(
        simulated, rel=1e-9
    )


@pytest.mark.parametrize(("nodes", "each", "ports"), [(2, 4, 4), (2, 4, 2), (2, 4, 1), (4, 2, 2)])
def test_pieces_through_two_levels_come_near_the_slower_of_them(nodes, each, ports):
    nbytes, inside, port = 1e9, (1e-9, 300e9), 50e9
    closed = hierarchical("all_reduce", nbytes, Shape(nodes, each)).time_s(inside, (1e-9, ports * port))
    coarse, fine = (
        Wires(each, inside, (1e-9, port), ports).run(two_levels(nodes, each, nbytes, pieces)) for pieces in (1, 8)
    )
    assert closed * 0.999 <= fine <= coarse
    assert fine <= 1.3 * closed


def test_in_the_switch_a_rank_sends_everything_once_and_its_part_once_more():
    ranks, nbytes = 8, 8e6
    sent = sum(nbytes / ranks for _ in range(ranks)) + nbytes / ranks
    assert in_switch("all_reduce", nbytes, Shape(1, ranks)).bytes_inside == pytest.approx(sent)


@pytest.mark.parametrize(("nodes", "times"), [(2, 1), (4, 2)])
def test_switches_joined_by_trees_send_a_node_s_sum_once_between_two_and_up_and_down_among_more(nodes, times):
    cost = in_switch_tree("all_reduce", 8e6, Shape(nodes, 8))
    assert cost.bytes_inside == in_switch("all_reduce", 8e6, Shape(1, 8)).bytes_inside
    assert cost.bytes_between == times * 8e6 and cost.hops_between == 2 * rounds(nodes)


def test_an_algorithm_that_cannot_run_a_collective_says_so():
    for algorithm, kind, shape in (
        (tree, "all_to_all", Shape(1, 4)),
        (tree, "all_gather", Shape(4, 1)),
        (pat, "all_gather", Shape(2, 8)),
        (pat, "all_reduce", Shape(8, 1)),
        (in_switch_tree, "all_reduce", Shape(1, 8)),
        (in_switch_tree, "all_reduce", Shape(8, 1)),
        (ring, "gather", Shape(1, 4)),
        (in_switch, "broadcast", Shape(1, 8)),
        (in_switch, "all_reduce", Shape(2, 8)),
        (hierarchical, "all_reduce", Shape(1, 8)),
    ):
        with pytest.raises(LookupError):
            algorithm(kind, 1e6, shape)
