"""MIG: what NVIDIA's tables allow, and packings against trying every assignment."""

import random
from itertools import combinations, product

import pytest

from gpulab.platforms import GEOMETRY, NO_MIG, free_starts, geometry, layouts, most_placed
from gpulab.platforms.mig import COMPUTE_SLICES, MEMORY_SLICES, Placed


def names(way):
    return sorted(one.profile.name.partition(".")[0] for one in way)


def test_no_layout_has_more_than_seven_compute_and_eight_memory_slices():
    for gpu in GEOMETRY:
        for way in layouts(gpu):
            assert sum(one.profile.compute for one in way) <= COMPUTE_SLICES
            assert sum(one.mask for one in way) < 1 << MEMORY_SLICES and len({one.mask for one in way}) == len(way)


def test_as_many_instances_of_a_kind_fit_as_the_guide_says():
    for gpu, table in GEOMETRY.items():
        for profile, most in zip(table.values(), (7, 4, 3, 2, 1, 1), strict=True):
            assert most_placed([(profile.gb, profile.compute)] * 8, [gpu]) == most, profile


@pytest.mark.parametrize("gpu", list(GEOMETRY))
def test_three_and_three_leave_nothing_and_four_and_three_are_legal(gpu):
    found = [names(way) for way in layouts(gpu)]
    assert (
        ["3g", "3g"] in found
        and ["3g", "4g"] in found
        and ["1g", "3g", "3g"] not in found
        and ["4g", "4g"] not in found
    )
    assert ["1g", "2g", "2g", "2g"] in found and ["1g"] * 7 in found


def test_a_three_at_slice_0_keeps_the_four_out():
    table = {name.partition(".")[0]: one for name, one in GEOMETRY["A100-40GB"].items() if name != "1g.10gb"}
    assert free_starts(table["4g"], Placed(table["3g"], 0).mask) == []
    assert free_starts(table["4g"], Placed(table["3g"], 4).mask) == [0]
    assert free_starts(table["3g"], Placed(table["1g"], 6).mask) == [0]


def by_trying(jobs, gpus):
    """Every assignment of every set of jobs."""

    def choices(gb, compute):
        return [
            (number, Placed(profile, start).mask)
            for number, gpu in enumerate(gpus)
            for profile in GEOMETRY[gpu].values()
            for start in profile.starts
            if profile.gb >= gb and profile.compute >= compute
        ]

    for count in range(len(jobs), 0, -1):
        for some in combinations(jobs, count):
            for places in product(*(choices(*job) for job in some)):
                taken = [0] * len(gpus)
                for number, mask in places:
                    if taken[number] & mask:
                        break
                    taken[number] |= mask
                else:
                    return count
    return 0


def test_packings_are_those_of_trying_every_assignment():
    rng = random.Random(1)
    for _ in range(25):
        gpus = [rng.choice(list(GEOMETRY)) for _ in range(rng.randint(1, 2))]
        jobs = [(rng.choice((4, 10, 20, 36, 60)), rng.choice((1, 2, 3, 4))) for _ in range(rng.randint(1, 3))]
        assert most_placed(jobs, gpus) == by_trying(jobs, gpus), (jobs, gpus)


@pytest.mark.parametrize("gpu", NO_MIG)
def test_a_gpu_without_mig_is_refused_by_name(gpu):
    with pytest.raises(ValueError, match="has no MIG"):
        geometry(gpu)
    with pytest.raises(ValueError, match="no table for"):
        geometry("A100")
