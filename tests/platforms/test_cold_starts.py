"""Cold starts against a playing of every chunk, and against loads that others measured."""

import random
from math import inf

import pytest

from gpulab.cards.links import LINKS
from gpulab.platforms import TIERS, Load, Work, bandwidths, timeline
from gpulab.platforms.coldstart import load_seconds


def played(load, tiers):
    """One chunk after the other through one tier after the other."""
    left = load.nbytes if load.needed is None else load.needed
    free = dict.fromkeys(load.path, 0.0)
    while left > 0:
        size, came = min(left, load.chunk or inf), 0.0
        left -= size
        for name in load.path:
            came = free[name] = max(came, free[name]) + size / tiers[name]
    return free[load.path[-1]]


def drawn_load(rng):
    path = tuple(rng.sample("abcd", rng.randint(1, 4)))
    nbytes = rng.randint(0, 200)
    needed = rng.choice([None, rng.randint(0, nbytes)])
    return Load("load", nbytes, path, chunk=rng.choice([None, rng.randint(1, 60)]), needed=needed)


def test_the_closed_form_is_what_playing_every_chunk_comes_to():
    rng = random.Random(1)
    for _ in range(3000):
        load, tiers = drawn_load(rng), {name: rng.randint(1, 9) for name in "abcd"}
        assert load_seconds(load, tiers) == pytest.approx(played(load, tiers), rel=1e-12, abs=1e-12), (load, tiers)


def test_a_load_is_no_faster_than_its_slowest_tier_and_no_slower_than_all_in_a_row():
    rng = random.Random(2)
    for _ in range(500):
        load, tiers = drawn_load(rng), {name: rng.randint(1, 9) for name in "abcd"}
        wanted = load.nbytes if load.needed is None else load.needed
        each = [wanted / tiers[name] for name in load.path]
        assert max(each) - 1e-9 <= load_seconds(load, tiers) <= sum(each) + 1e-9


def random_plan(rng):
    plan = []
    for number in range(rng.randint(1, 7)):
        after = tuple(one.name for one in rng.sample(plan, min(len(plan), rng.randint(0, 2))))
        name = f"stage {number}"
        work = Work(name, rng.randint(0, 9), after)
        plan.append(
            work if rng.random() < 0.5 else Load(name, rng.randint(0, 50), ("a", "b"), after, chunk=rng.randint(1, 9))
        )
    return rng.sample(plan, len(plan))


def test_the_critical_chain_has_no_gaps_and_its_stages_add_up_to_ready():
    rng, tiers = random.Random(3), {"a": 3, "b": 2}
    for _ in range(300):
        plan = random_plan(rng)
        found = timeline(plan, tiers)
        spans = [found.spans[name] for name in found.critical]
        assert spans[0][0] == 0 and spans[-1][1] == found.ready
        assert all(before[1] == after[0] for before, after in zip(spans, spans[1:]))
        assert sum(end - begin for begin, end in spans) == pytest.approx(found.ready)


def test_what_is_not_critical_saves_nothing_and_nothing_saves_more_than_it_takes():
    rng, tiers = random.Random(4), {"a": 3, "b": 2}
    for _ in range(300):
        plan = random_plan(rng)
        found = timeline(plan, tiers)
        for stage in plan:
            if isinstance(stage, Work):
                assert -1e-9 <= found.saves[stage.name] <= stage.seconds + 1e-9
                assert stage.name in found.critical or found.saves[stage.name] < 1e-9
        assert found.saves[found.bottleneck] == max(found.saves.values())


@pytest.mark.parametrize("billions, seconds", [(30, 34), (70, 84)])
def test_published_loads_take_longer_than_every_tier_needs(billions, seconds):
    """OPT-30B and Llama 2 70B, as ServerlessLLM's authors report a usual loader; its own is 3.6 to 8.2 times as fast."""
    weights = Load("weights", 2e9 * billions, ("NVMe, PCIe 4", "PCIe 4 x16"), chunk=1e9)
    modelled = timeline([weights], bandwidths()).ready
    assert 3.2 < seconds / modelled < 8.2


def test_a_drive_has_a_quarter_of_sixteen_lanes():
    for generation in (3, 4, 5):
        assert TIERS[f"NVMe, PCIe {generation}"].bytes_per_s == LINKS[f"PCIe {generation}"].reached_bytes_per_s / 4
    assert all(tier.source for tier in TIERS.values())


@pytest.mark.parametrize(
    "plan",
    [
        [],
        [Work("a", 1, ("a",))],
        [Work("a", 1, ("b",))],
        [Work("a", 1), Work("a", 2)],
        [Work("a", 1, ("b",)), Work("b", 1, ("a",))],
    ],
)
def test_what_is_no_plan_is_refused(plan):
    with pytest.raises(ValueError):
        timeline(plan, {})
