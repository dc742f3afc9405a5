"""A loader as stages: the simulation against PyTorch's own loader, the long run against the slowest stage."""

import random
import time
from collections import OrderedDict
from dataclasses import replace

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from gpulab import observe
from gpulab.feeding import PLACES, Loader, Stages, Work, bounds, hit_rate, idle, placed, rate, simulate
from gpulab.feeding.pipeline import AHEAD


class Sleeping(Dataset):
    """Sample i takes ``seconds[i]``."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, i):
        time.sleep(self.seconds[i])
        return i


def collated(samples):
    time.sleep(0.006)
    return torch.tensor(samples)


def played(workers, prefetch, seconds, step):
    """What a real loop took for each batch, and for all from the first batch on."""
    with observe() as seen:
        batches, steps = (
            DataLoader(Sleeping(seconds), 2, num_workers=workers, prefetch_factor=prefetch, collate_fn=collated),
            [],
        )
        for _ in batches:
            began = time.monotonic()
            time.sleep(step)
            steps.append(1000 * (time.monotonic() - began))
    return seen.batches, steps


def as_measured(batches, steps):
    """The stages of each batch; what the queue itself took is the batch's where the loop waits for it, else the loop's."""
    stages = []
    for number, (batch, step) in enumerate(zip(batches, steps, strict=True)):
        late = batch.workers and batch.ready_us > batch.asked_us
        queue = (batch.given_us - (batch.ready_us if late else batch.asked_us)) / 1000 if batch.workers else 0.0
        stages.append(
            Stages(batch.dataset_us / 1000, 0.0, batch.collate_us / 1000, pin=queue if late else 0.0, step=step)
        )
        if number and not late:
            stages[-2] = replace(stages[-2], step=stages[-2].step + queue)
    return stages


@pytest.mark.audit  # sleeps are held against each other
@pytest.mark.parametrize(("workers", "prefetch"), [(0, None), (1, 1), (1, 3), (2, 2)])
def test_the_simulation_gives_each_batch_when_pytorchs_loader_does(workers, prefetch):
    uneven = [0.04 if i // 2 % 5 == 3 else 0.01 for i in range(32)]
    batches, steps = played(workers, prefetch, uneven, 0.024)
    turns = simulate(as_measured(batches, steps), Loader(workers, prefetch or 1))
    real = batches[-1].given_us - batches[0].given_us
    assert 1000 * (turns[-1].given - turns[0].given) == pytest.approx(real, rel=0.1)
    assert [turn.worker for turn in turns] == [-1 if batch.worker is None else batch.worker for batch in batches]


def random_stages(rng):
    return Stages(*(rng.choice([0.0, rng.uniform(1, 40)]) for _ in range(6)), rng.uniform(1, 40))


def random_loader(rng):
    return Loader(rng.choice([0, 1, 2, 5, 16]), rng.randint(1, 4), rng.choice([1, 2, 4, 32]), rng.random() < 0.5)


def kept_below(stages, loader):
    """The least of the bounds, of workers in phase, and of what the batches under way allow; batches a second."""
    making = stages.fetch + (computing := stages.decode + stages.collate)
    device = stages.transfer + stages.engine + stages.step
    milliseconds = [1000 / least for least in bounds(stages, loader).values()]
    if loader.workers:
        milliseconds.append((stages.fetch + computing * max(1, loader.workers / loader.cores)) / loader.workers)
        milliseconds.append((making + stages.pin) / (loader.workers * loader.prefetch))
    elif loader.overlap:
        milliseconds.append((making + stages.pin + device) / AHEAD)
    return 1000 / max(milliseconds)


def test_no_rate_is_above_the_slowest_stages_and_only_phase_and_a_short_queue_keep_one_below():
    rng, below = random.Random(0), 0
    for _ in range(200):
        stages, loader = random_stages(rng), random_loader(rng)
        found, least = rate(simulate([stages] * 400, loader)), min(bounds(stages, loader).values())
        assert 0.97 * kept_below(stages, loader) <= found <= 1.06 * least, (
            stages,
            loader,
        )  # whole rounds of 16 workers in 200 batches
        below += found < 0.95 * least
    assert below > 3


def test_workers_that_are_alike_stay_in_phase_and_leave_cores_unused():
    stages, loader = Stages(fetch=13, decode=12.3), Loader(8, cores=2)
    found, least = rate(simulate([stages] * 600, loader)), min(bounds(stages, loader).values())
    assert least == pytest.approx(1000 * 2 / 12.3) and found == pytest.approx(1000 * 8 / (13 + 12.3 * 4), rel=0.02)
    uneven = random.Random(0)
    mixed = [Stages(fetch=uneven.uniform(1, 25), decode=12.3) for _ in range(600)]
    assert rate(simulate(mixed, loader)) > found * 1.1


def test_prefetching_moves_no_long_run_rate_and_hides_what_is_uneven():
    even = Stages(fetch=30, step=10)
    rates = [rate(simulate([even] * 200, Loader(2, prefetch))) for prefetch in (2, 4, 8)]
    assert max(rates) == pytest.approx(min(rates), rel=0.01)
    uneven = [Stages(fetch=64 if i % 8 == 7 else 8, step=18) for i in range(400)]
    found = [idle(simulate(uneven, Loader(1, prefetch))) for prefetch in (1, 2, 4, 8)]
    assert found == sorted(found, reverse=True) and found[0] > 0.2 and found[-1] < 0.02


def test_past_the_cores_a_worker_that_computes_adds_nothing_and_one_that_waits_does():
    computing, waiting = Stages(decode=40, step=1), Stages(fetch=40, step=1)
    on_four = {workers: rate(simulate([computing] * 200, Loader(workers, cores=4))) for workers in (2, 4, 8)}
    assert on_four[4] == pytest.approx(2 * on_four[2], rel=0.02) and on_four[8] == pytest.approx(on_four[4], rel=0.02)
    assert rate(simulate([waiting] * 200, Loader(8, cores=4))) == pytest.approx(2 * on_four[4], rel=0.05)


def test_times_are_in_order_and_no_worker_makes_two_batches_at_once():
    rng = random.Random(1)
    for _ in range(40):
        loader, batches = random_loader(rng), [random_stages(rng) for _ in range(30)]
        turns = simulate(batches, loader)
        for turn, later in zip(turns, turns[1:], strict=False):
            assert turn.begun <= turn.ready <= turn.given <= turn.started <= turn.ended and turn.asked <= turn.given
            assert turn.given <= later.given and turn.ended <= later.started
        for worker in range(loader.workers):
            own = [(turn, batch) for turn, batch in zip(turns, batches, strict=True) if turn.worker == worker]
            ends = [turn.begun + batch.fetch + batch.decode + batch.collate for turn, batch in own]
            assert all(end <= later.begun + 1e-6 for end, (later, _) in zip(ends, own[1:], strict=False))


def test_no_more_is_under_way_than_workers_times_prefetch():
    for workers, prefetch in ((1, 1), (2, 3), (4, 2)):
        turns = simulate([Stages(fetch=1, step=50)] * 40, Loader(workers, prefetch))
        for number, turn in enumerate(turns[workers * prefetch :], workers * prefetch):
            assert turn.begun >= turns[number - workers * prefetch].given


def test_overlap_takes_the_transfer_out_of_the_loop():
    stages = Stages(fetch=1, transfer=10, engine=6, step=20)
    apart, beside = (rate(simulate([stages] * 100, Loader(2, overlap=overlap))) for overlap in (False, True))
    assert apart == pytest.approx(1000 / 36, rel=0.01) and beside == pytest.approx(1000 / 20, rel=0.01)


def test_work_that_leaves_the_workers_arrives_somewhere():
    work = Work(fetch=5, decode=60, augment=20, collate=2, pin=3, transfer=4, step=30, parse=0.4, packed=10, faster=20)
    here = {place: placed(work, place) for place in PLACES}
    assert [stages.decode for stages in here.values()] == [80, 60, 24, 0]
    assert [stages.step for stages in here.values()] == pytest.approx([30, 31, 32.8, 31])
    assert [stages.transfer for stages in here.values()] == [4, 4, 0.4, 0.4] and here["hardware decoder"].engine == 3
    with pytest.raises(ValueError, match="not 'gpu'"):
        placed(work, "gpu")


def least_recently_used(samples, room, epochs, rng, shuffled):
    cache, order, hits = OrderedDict(), list(range(samples)), 0
    for epoch in range(epochs):
        if shuffled:
            rng.shuffle(order)
        for sample in order:
            hits += epoch > 0 and sample in cache
            cache[sample] = True
            cache.move_to_end(sample)
            if len(cache) > room:
                cache.popitem(last=False)
    return hits / samples / (epochs - 1)


@pytest.mark.parametrize("cached", [0.1, 0.3, 0.5, 0.8, 0.95, 1.0])
def test_the_hit_rate_is_that_of_a_cache_that_throws_out_the_least_recently_used(cached):
    found = least_recently_used(3000, round(3000 * cached), 6, random.Random(0), shuffled=True)
    assert hit_rate(cached) == pytest.approx(found, abs=0.01)
    assert hit_rate(cached, "the same order") == least_recently_used(300, round(300 * cached), 3, None, shuffled=False)


def test_what_is_no_loader_is_refused():
    for wrong in ((-1, 2, 4), (1, 0, 4), (1, 2, 0)):
        with pytest.raises(ValueError, match="no loaders"):
            Loader(*wrong)
    with pytest.raises(ValueError, match="no hit rate"):
        hit_rate(-0.1)
