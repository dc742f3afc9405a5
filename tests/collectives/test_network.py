"""Networks: links in bytes and one direction, shared ports, and the choice of algorithm."""

from dataclasses import replace

import pytest

from gpulab.cards.cards import CARDS
from gpulab.cards.links import LINKS, link_named
from gpulab.collectives.network import KINDS, SYSTEMS, Network, Node, bus_factor

GB = 1e9
PAIR = Network.of("DGX H100", nodes=2)
CABLE = Network.of("two nodes, one cable", nodes=2)


def test_every_link_is_in_bytes_a_second_of_one_direction():
    expected = {"PCIe 3": 16, "PCIe 5": 64, "PCIe 6": 128, "NVLink 3": 300, "NVLink 4": 450, "NVLink 5": 900, "NVLink 6": 1800,
                "InfiniBand HDR": 25, "InfiniBand NDR": 50, "InfiniBand XDR": 100, "RoCE 400": 50, "Ethernet 100": 12.5}  # fmt: skip
    assert {key: LINKS[key].bytes_per_s / GB for key in expected} == expected


def test_every_link_names_who_says_so_and_what_of_it_is_reached():
    for link in LINKS.values():
        assert link.source and link.share_from and 0.7 < link.share <= 1


def test_a_port_is_planned_at_its_own_speed_or_at_that_of_the_lanes_behind_it():
    planned = {key: LINKS[key].reached_bytes_per_s / GB for key in ("Ethernet 100", "InfiniBand HDR", "InfiniBand NDR")}
    assert planned == {"Ethernet 100": 12.5, "InfiniBand HDR": 24, "InfiniBand NDR": 48}


def test_the_cards_host_links_are_those_of_this_table():
    assert {CARDS[key].link_bytes_per_s: 0 for key in ("T4", "A100", "H100")} == {
        LINKS[f"PCIe {g}"].bytes_per_s: 0 for g in (3, 4, 5)
    }


def test_a_name_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(ValueError, match="InfiniBand NDR"):
        link_named("NDR")
    with pytest.raises(ValueError, match="DGX H100"):
        Network.of("DGX")


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_collective_takes_longer_with_more_bytes_on_every_system(system, kind):
    network = Network.of(system, nodes=2)
    ranks = (0, network.gpus - 1) if kind == "send" else network.gpus
    times = [network.duration_us(kind, nbytes, ranks) for nbytes in (0, 1 << 10, 1 << 20, 1 << 30)]
    assert times[0] > 0 and times == sorted(times)
    assert kind == "barrier" or times[-1] > 2 * times[0]


def test_one_rank_alone_waits_for_nobody():
    assert PAIR.duration_us("all_reduce", 1 << 30, [3]) == 0


def test_small_messages_take_a_short_protocol_and_large_ones_a_wide_one():
    small, middle, large = (PAIR.chosen("all_reduce", nbytes, 16) for nbytes in (1 << 10, 1 << 20, 1 << 30))
    assert [(c.algorithm, c.protocol) for c in (small, middle)] == [("tree", "LL"), ("tree", "LL128")]
    assert (large.algorithm, large.protocol) == ("in_switch_tree", "Simple")


def test_eight_h200_take_what_nccl_took_there():
    """Machine Learning Engineering Open Book, network/README.md: LL rings up to 1 MiB, NVLS from 2 MiB."""
    chosen = [Network.of("DGX H100").chosen("all_reduce", nbytes, 8) for nbytes in (1 << 15, 1 << 20, 1 << 21, 1 << 30)]
    assert [(c.algorithm, c.protocol) for c in chosen] == 2 * [("ring", "LL")] + 2 * [("in_switch", "Simple")]


def test_nccl_s_own_prediction_for_two_nodes_of_h100_is_met():
    """NVIDIA/nccl issue 1453 prints it for 24 ranks on three nodes, whose trees are as deep as those of two: 25.214764 us."""
    two = Network.of("DGX H100", 2).chosen("all_reduce", 128, 16)
    assert two.planned_us == pytest.approx(25.214764, rel=0.001) and two.duration_us > 1.4 * two.planned_us


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_the_halves_of_an_all_reduce_have_no_tree_and_one_gpu_a_node_has_pat(kind):
    ways = {c.algorithm for c in PAIR.choices(kind, 1 << 10, 16)}
    alone = {c.algorithm for c in PAIR.choices(kind, 1 << 10, (0, 8))}
    assert ways == {"ring"} and alone == {"ring", "pat"}


def test_a_tree_beats_a_ring_where_hops_cost_more_than_bytes():
    many = Network.of("DGX A100", nodes=32)
    ring, tree = (
        min(c.duration_us for c in many.choices("all_reduce", 8, many.gpus) if c.algorithm == name)
        for name in ("ring", "tree")
    )
    assert tree < ring / 4


def test_over_several_nodes_a_ring_s_hop_is_no_shorter_than_posting_to_the_network():
    def hops(host):
        network = Network(replace(PAIR.node, host=host), 2)
        return next(
            c.planned_us for c in network.choices("all_gather", 0, 16) if (c.algorithm, c.protocol) == ("ring", "LL")
        )

    assert hops("AMD") - hops("Intel") == pytest.approx(13)
    assert hops("Intel") == pytest.approx(6.6 + 13 * 1.0 + 2 * 2.7)


def test_what_a_machine_takes_is_longer_than_nccl_counts_on_but_for_ll_inside_a_node():
    for nbytes in (8, 1 << 16, 1 << 20, 1 << 24, 1 << 30):
        for choice in (PAIR.chosen("all_reduce", nbytes, ranks) for ranks in (8, 16)):
            exact = choice.protocol == "LL" and choice.cost.hops_between == 0
            assert choice.duration_us == choice.planned_us if exact else choice.duration_us > choice.planned_us


def test_ranks_of_one_node_leave_the_network_alone():
    inside, across = CABLE.chosen("all_reduce", 1 << 28, range(8)), CABLE.chosen("all_reduce", 1 << 28, 16)
    assert inside.cost.bytes_between == 0 and across.cost.bytes_between > 0
    assert across.duration_us > 4 * inside.duration_us


def test_which_ranks_they_are_decides_and_not_how_many():
    neighbours, strangers = (PAIR.duration_us("all_reduce", 1 << 28, ranks) for ranks in ((0, 1), (0, 8)))
    assert strangers > 5 * neighbours


def test_eight_groups_at_one_port_take_eight_times_as_long_and_at_eight_ports_no_longer():
    groups = [(i, i + 8) for i in range(8)]
    for network, times in ((CABLE, 8), (PAIR, 1)):
        alone = network.duration_us("all_reduce", 1 << 30, groups[0])
        together = network.duration_us("all_reduce", 1 << 30, groups[0], beside=groups[1:])
        assert together == pytest.approx(times * alone, rel=0.05)


def test_groups_that_stay_in_their_node_take_nothing_from_the_port():
    alone = CABLE.duration_us("all_reduce", 1 << 28, (0, 8))
    assert CABLE.duration_us("all_reduce", 1 << 28, (0, 8), beside=[(1, 2, 3), (9, 10)]) == alone


def test_a_gpu_that_is_in_two_groups_at_once_has_half_its_link_for_each():
    alone = PAIR.duration_us("all_gather", 1 << 30, (0, 1))
    assert PAIR.duration_us("all_gather", 1 << 30, (0, 1), beside=[(1, 2)]) == pytest.approx(2 * alone, rel=0.03)


def test_two_ports_a_gpu_are_twice_as_wide():
    rack = Network.of("VR NVL72", nodes=2)
    assert rack.node.port_bytes_per_s == 2 * LINKS["InfiniBand XDR"].reached_bytes_per_s


def test_a_ring_shows_its_links_speed_as_bus_bandwidth_for_any_number_of_ranks():
    rings = Network.of("DGX H100", nvls=False)
    seen = [rings.bus_bandwidth("all_reduce", 8 << 30, n) for n in range(2, 9)]
    reached = LINKS["NVLink 4"].reached_bytes_per_s
    assert all(value == pytest.approx(reached, rel=0.04) for value in seen)


def test_bus_bandwidth_is_defined_as_nccl_tests_defines_it():
    assert [
        bus_factor(kind, 8)
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send")
    ] == [
        1.75,
        0.875,
        0.875,
        0.875,
        1,
        1,
    ]
    with pytest.raises(ValueError, match="barrier"):
        bus_factor("barrier", 8)


@pytest.mark.parametrize(
    ("system", "ranks", "adds"), [("DGX H100", 8, True), ("DGX B200", 5, False), ("DGX B200", 6, True)]
)
def test_the_switch_adds_from_as_many_gpus_on_as_were_measured(system, ranks, adds):
    """Machine Learning Engineering Open Book, network/README.md, section SHARP."""
    assert (Network.of(system).chosen("all_reduce", 8 << 30, ranks).algorithm == "in_switch") == adds


def test_the_switch_adds_where_it_can_and_where_it_may():
    for network in (Network.of("DGX H100", 2, nvls=False), Network.of("DGX A100", 2)):
        for ranks in (8, 16):
            assert all("switch" not in c.algorithm for c in network.choices("all_reduce", 8 << 30, ranks))


def test_what_cannot_be_is_refused():
    for kind, nbytes, ranks in (
        ("all_sum", 1, 2),
        ("all_reduce", -1, 2),
        ("all_reduce", 1, 17),
        ("all_reduce", 1, []),
        ("send", 1, 3),
        ("all_reduce", 1, (1, 1)),
    ):
        with pytest.raises(ValueError):
            PAIR.duration_us(kind, nbytes, ranks)
    with pytest.raises(ValueError, match="0 nodes"):
        Network.of("DGX H100", nodes=0)
    with pytest.raises(ValueError, match="evenly"):
        Node("odd", 8, LINKS["NVLink 4"], 3, LINKS["InfiniBand NDR"], "nobody")
