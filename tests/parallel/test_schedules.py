"""gpulab.parallel's pipeline schedules: orders, slots, bubbles and activations in flight, against torch.distributed.pipelining."""

import itertools

import pytest

from gpulab.parallel import (
    gpipe,
    idle_share,
    in_flight,
    most_in_flight,
    of_torch,
    one_f_one_b,
    orders,
    orders_of_torch,
    placed,
    slots,
    timed,
    violations,
    zero_bubble,
)
from gpulab.plots.schedule import schedule_figure, spans_figure

SIZES = list(itertools.product((1, 2, 3, 4, 6), (1, 2, 3, 4, 5, 8)))


@pytest.mark.parametrize("schedule", [gpipe, one_f_one_b, zero_bubble])
def test_every_schedule_is_sound(schedule):
    assert all(violations(schedule(p, m), p, m) == [] for p, m in SIZES)


@pytest.mark.parametrize("schedule", [gpipe, one_f_one_b])
def test_gpipe_and_1f1b_idle_alike(schedule):
    for p, m in SIZES:
        assert slots(schedule(p, m)) == 2 * (m + p - 1)
        assert idle_share(schedule(p, m)) == pytest.approx((p - 1) / (m + p - 1))


def test_stage_s_of_p_holds_p_minus_s_activations_under_1f1b_and_all_under_gpipe():
    for p, m in SIZES:
        assert most_in_flight(one_f_one_b(p, m)) == [min(m, p - s) for s in range(p)]
        assert most_in_flight(gpipe(p, m)) == [m] * p


def test_zb_h1_idles_a_third_of_what_1f1b_does_and_holds_no_more_than_its_first_stage():
    """With backward passes of two units of time: arXiv 2401.10241, table 2, (p - 1) of 3 (p - 1)."""
    for p, m in ((2, 4), (3, 6), (4, 8), (4, 12)):
        whole = timed(orders(one_f_one_b(p, m)), {"B": 2})
        assert max(row[-1].end for row in whole) == 3 * (m + p - 1)
        assert slots(zero_bubble(p, m)) == 3 * m + p - 1
        assert max(most_in_flight(zero_bubble(p, m))) <= p


def test_1f1b_runs_what_torch_runs():
    for p, m in ((1, 1), (2, 2), (2, 5), (4, 4), (4, 9)):
        assert orders(one_f_one_b(p, m)) == orders_of_torch("1F1B", p, m)
        assert orders(gpipe(p, m)) == orders_of_torch("GPipe", p, m)
    with pytest.raises(ValueError, match="microbatches"):
        of_torch("1F1B", 4, 3)


def test_an_activation_is_held_until_the_weights_half_is_done():
    assert in_flight([["0F0", "0I0", None, "0W0", None]]) == [[1, 1, 1, 1]]
    assert in_flight([["0F0", None, "0B0", "0F1", "0B1"]]) == [[1, 1, 1, 1, 1]]


def test_what_is_never_done_backward_is_held_to_the_end():
    assert in_flight([["0F0", None], [None, "1F0"]]) == [[1, 1], [0, 1]]


def test_gpus_that_wait_for_each_other_are_said_to():
    with pytest.raises(ValueError, match="next would be 0B0, 1F0"):
        placed([["0B0", "0F0"], ["1F0", "1B0"]])


def test_a_hop_delays_what_comes_from_another_gpu():
    spans = timed([["0F0", "0B0"], ["1F0", "1B0"]], {"B": 2}, hop=0.5)
    assert [(span.start, span.end) for row in spans for span in row] == [(0, 1), (5, 7), (1.5, 2.5), (2.5, 4.5)]


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-1, 4)])
@pytest.mark.parametrize("schedule", [gpipe, one_f_one_b, zero_bubble])
def test_a_pipeline_has_a_stage_and_a_microbatch(schedule, sizes):
    with pytest.raises(ValueError, match="no pipeline"):
        schedule(*sizes)


def test_a_figure_says_what_it_shows():
    table = one_f_one_b(4, 8)
    assert "4 GPUs, 22 slots, 27% of them idle; at most 4, 3, 2, 1" in schedule_figure(table, "1F1B").alt
    assert "27% of them idle" in spans_figure(timed(orders(table), {"B": 2}), "1F1B").alt
