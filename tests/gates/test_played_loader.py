"""The loader that E11.1 is judged by: it is what a real one does, as ratios of rates, and what the busiest part allows."""

import time

import pytest
from torch.utils.data import DataLoader, Dataset

from autograder.core.sampler import Sampler
from exercises.feeding.pipeline_throughput.judge import WITHIN, exercise, parts
from exercises.feeding.pipeline_throughput.simulated_loader import played_rate

STAGES = [("read", "wait", "sample", 0.032), ("step", "device", "batch", 0.048)]
TRIES = 8


class Asleep(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        time.sleep(STAGES[0][3])
        return index


def real_rate(workers: int) -> float:
    """Batches a second of two samples each, once the start is over."""
    taken = []
    for _ in DataLoader(Asleep(), 2, num_workers=workers):
        taken.append(time.perf_counter())
        time.sleep(STAGES[1][3])
    return (len(taken) - 5) / (taken[-1] - taken[4])


def worst_ratio() -> float:
    """How far the gain of one worker and of two over none is from the played loader's, as a share of it."""
    real, played = ([of(n) for n in (0, 1, 2)] for of in (real_rate, lambda n: played_rate(STAGES, 2, n, 2, 2)))
    return max(abs(real[n] / real[0] / (played[n] / played[0]) - 1) for n in (1, 2))


def test_workers_gain_in_a_real_loader_what_they_gain_in_the_played_one():
    """A busy machine lets a sleeper wait longer: the best of a few tries counts."""
    assert any(worst_ratio() < 0.15 for _ in range(TRIES))


@pytest.mark.parametrize("seed", range(4))
def test_the_drawn_loaders_reach_what_their_busiest_part_allows(seed):
    for case in exercise.cases(Sampler(seed)):
        for question in case.questions if not case.raises else ():
            assert abs(played_rate(**question) * max(parts(**question))[0] - 1) < WITHIN / 2
