"""Times in collectives: whoever comes last waits least, and the victims wait."""

import random

import pytest

from gpulab.fleet import delays, groups, holds_up, step


def test_groups_are_those_of_a_mesh():
    from gpulab.parallel import mesh_groups

    for ranks, tp in ((8, 2), (16, 4), (12, 3), (4, 4), (4, 1)):
        mesh = mesh_groups({"dp": ranks // tp, "tp": tp})
        assert groups(ranks, tp) == {"tp": mesh["tp"], "dp": mesh["dp"]}
    with pytest.raises(ValueError):
        groups(8, 3)


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_every_rank_takes_the_same_time_for_a_step(tp):
    """What a rank works, waits and sends adds up to the step."""
    rng = random.Random(tp)
    for _ in range(50):
        work = [rng.uniform(100, 130) for _ in range(8)]
        behind = [rng.uniform(0, 9) for _ in range(8 // tp)]
        times = step(work, tp, (2.0, 5.0), behind)
        ends = [own + times["tp"][r] + behind[r // tp] + times["dp"][r] for r, own in enumerate(work)]
        place = [[ends[r] for r in group] for group in groups(8, tp)["dp"]]
        assert all(end == pytest.approx(group[0]) for group in place for end in group) and max(ends) == times["step"][0]


def test_the_culprit_has_the_least_time_in_collectives_and_its_neighbours_the_most():
    work = [100.0] * 8
    work[5] += 30
    times = step(work, 2, (2.0, 5.0))
    assert times["tp"][5] == 2.0 and times["tp"][4] == 32.0 and times["dp"][5] == times["dp"][4] == 5.0
    assert sum(time > 30 for time in times["dp"]) == 6


def test_a_delay_is_what_the_meeting_would_gain():
    rng = random.Random(0)
    for _ in range(100):
        arrive = [rng.uniform(0, 50) for _ in range(5)]
        times = [max(arrive) - own + 3 for own in arrive]
        for rank, delay in enumerate(holds_up(times)):
            without = max(own for other, own in enumerate(arrive) if other != rank)
            assert delay == pytest.approx(max(arrive) - max(without, 0) if arrive[rank] == max(arrive) else 0)
    assert holds_up([3.0, None]) is None and holds_up([3.0]) is None and holds_up([3.0, 3.0, 9.0]) == [0.0, 0.0, 0.0]


def test_a_spike_is_no_straggler():
    rows = [
        step([100.0 + (50 if r == 3 else 0) + (9000 if (r, s) == (1, 4) else 0) for r in range(4)], 1, (0.0, 5.0))["dp"]
        for s in range(9)
    ]
    assert delays(rows, groups(4, 1)["dp"]) == [0, 0, 0, 50]
