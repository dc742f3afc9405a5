"""Hours of machines are used or idle, and a tag ends the idle ones; what was published of clusters is read."""

import pytest

from gpulab.fleet.acme import shares
from gpulab.fleet.leaks import forgotten, held


def test_a_tag_ends_idle_hours_and_no_used_ones():
    machines = forgotten(2_000, 0.1, seed=1)
    whole = sum(used + stays for used, stays in machines)
    free = held(machines)
    assert free.used + free.idle == pytest.approx(whole)
    for ttl in (0, 1, 24, 1_000):
        tagged = held(machines, ttl)
        assert tagged.used == free.used and tagged.idle <= min(free.idle, ttl * len(machines))
    assert held(machines, 1_000) == free and held(machines, 0).idle == 0
    assert sum(stays > 0 for _, stays in machines) == pytest.approx(200, abs=60)


def test_the_shares_of_each_cluster_add_up():
    assert set(shares("time")) == {"Seren", "Kalos", "Philly", "Helios"}
    for of in ("jobs", "time"):
        assert all(sum(ends.values()) == pytest.approx(1, abs=0.003) for ends in shares(of).values())
    assert shares("time")["Seren"] == {"complete": 0.212, "cancel": 0.664, "fail": 0.124}
