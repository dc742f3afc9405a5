"""The host's side of a DataLoader: what each batch took in its worker, and how long the loop waited for it."""

import importlib
import multiprocessing
import os
import random
import re
import signal
import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data._utils import pin_memory, worker
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

import gpulab.cuda
from gpulab import Observation, observe
from gpulab.observe import InstrumentError

SLEEP = 0.004


class Rows(Dataset):
    """Row i is (i, i, i); reading one takes ``seconds``."""

    def __init__(self, count=24, seconds=0.0):
        self.count, self.seconds = count, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return torch.full((3,), i)


class Stream(IterableDataset):
    """The numbers from 0 on; worker w of n yields w, w + n, ..., the last worker one less than the others."""

    def __init__(self, count=11):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for i in range(first, self.count, step):
            yield torch.tensor(i)


def slow_collate(samples):
    time.sleep(2 * SLEEP)
    return torch.stack(samples)


def taken(loader, step=lambda: None):
    with observe() as seen:
        batches = []
        for batch in loader:
            batches.append(batch)
            step()
    return batches, seen


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("dataset", [Rows, Stream])
def test_the_loop_gets_what_it_gets_unobserved(dataset, workers):
    plain = list(DataLoader(dataset(), batch_size=4, num_workers=workers))
    batches, seen = taken(DataLoader(dataset(), batch_size=4, num_workers=workers))
    assert len(batches) == len(plain) and all(map(torch.equal, batches, plain))
    assert [batch.samples for batch in seen.batches] == [len(batch) for batch in plain]
    assert [batch.number for batch in seen.batches] == list(range(len(plain)))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_time_goes_to_the_stage_that_takes_it(workers):
    _, seen = taken(DataLoader(Rows(16, SLEEP), batch_size=4, num_workers=workers, collate_fn=slow_collate))
    for batch in seen.batches:
        assert batch.dataset_us >= 4e6 * SLEEP and batch.collate_us >= 2e6 * SLEEP and batch.pin_us is None
        assert batch.ready_us <= batch.given_us and batch.asked_us <= batch.given_us
        assert batch.line.text.startswith("for batch in loader")


def test_without_workers_the_loop_waits_for_all_of_every_batch():
    _, seen = taken(DataLoader(Rows(12, SLEEP), batch_size=4))
    for batch in seen.batches:
        assert batch.worker is batch.pid is batch.start_us is None and batch.queued == 0
        assert batch.wait_us >= batch.dataset_us + batch.collate_us


def test_batches_go_to_the_workers_in_turn_and_each_has_a_process_of_its_own():
    _, seen = taken(DataLoader(Rows(), batch_size=4, num_workers=2))
    assert [batch.worker for batch in seen.batches] == [0, 1, 0, 1, 0, 1]
    pids = {batch.worker: batch.pid for batch in seen.batches}
    assert len({*pids.values(), os.getpid()}) == 3 and all(batch.pid == pids[batch.worker] for batch in seen.batches)
    assert [batch.start_us is not None for batch in seen.batches] == [True] + 5 * [False]


@pytest.mark.audit  # sleeps are held against each other
def test_a_slow_loop_finds_its_batches_done_and_a_fast_one_finds_none():
    _, slow = taken(DataLoader(Rows(), batch_size=4, num_workers=1), step=lambda: time.sleep(0.03))
    _, fast = taken(DataLoader(Rows(24, SLEEP), batch_size=4, num_workers=1))
    assert max(batch.queued for batch in slow.batches) == 2 and sum(batch.queued for batch in slow.batches) >= 6
    assert sum(batch.queued for batch in fast.batches) < 6
    late = [batch.ready_us > batch.asked_us for batch in fast.batches]
    assert late[0] and sum(late) >= 4 and not all(batch.ready_us > batch.asked_us for batch in slow.batches)


def test_no_more_lies_done_than_the_loader_prefetches():
    _, seen = taken(DataLoader(Rows(48), batch_size=4, num_workers=2, prefetch_factor=3), step=lambda: time.sleep(0.05))
    assert max(batch.queued for batch in seen.batches) == 6


@pytest.mark.parametrize("workers", [0, 1])
def test_pinning_is_timed_where_the_loader_pins(workers):
    with gpulab.cuda.use("virtual:H100", quiet=True):
        batches, seen = taken(DataLoader(Rows(), batch_size=8, num_workers=workers, pin_memory=True))
        assert all(batch.is_pinned() for batch in batches)
    assert len(seen.batches) == 3 and all(batch.pin_us > 0 for batch in seen.batches)


def test_out_of_order_each_batch_keeps_its_own_times():
    others = multiprocessing.Semaphore(0)

    class Uneven(Rows):
        """The first row waits until the other worker has made four, and then a while."""

        def __getitem__(self, i):
            began = time.monotonic()
            if i == 0:
                all(others.acquire(timeout=60) for _ in range(4))
                time.sleep(0.05)
            others.release()
            return torch.tensor((i, 1e6 * (time.monotonic() - began)))

    batches, seen = taken(DataLoader(Uneven(10), batch_size=1, num_workers=2, prefetch_factor=5, in_order=False))
    rows, own = zip(*(batch.squeeze().tolist() for batch in batches), strict=True)
    slow = rows.index(0)
    assert slow >= 2 and own[slow] >= 50_000
    assert all(batch.dataset_us >= 0.999 * us for batch, us in zip(seen.batches, own, strict=True))


def test_a_batch_of_no_samples_argument_and_a_dictionary_come_through():
    batches, seen = taken(DataLoader(Rows(3), batch_size=None, num_workers=1))
    assert [batch.tolist() for batch in batches] == [3 * [i] for i in range(3)]
    assert [batch.samples for batch in seen.batches] == [1, 1, 1]


def test_each_epoch_is_a_pass_and_persistent_workers_keep_their_process():
    loader = DataLoader(Rows(8), batch_size=4, num_workers=1, persistent_workers=True)
    with observe() as seen:
        for _ in range(3):
            list(loader)
    assert [batch.loader for batch in seen.batches] == [0, 0, 1, 1, 2, 2]
    assert len({batch.pid for batch in seen.batches}) == 1 and all(
        batch.dataset_us is not None for batch in seen.batches
    )
    with observe() as again:
        list(loader)
    assert [batch.pid for batch in again.batches] == [seen.batches[0].pid] * 2
    assert [batch.start_us is None for batch in seen.batches] == [False] + 5 * [True]


def test_an_epoch_that_was_broken_off_leaves_no_times_to_the_next():
    loader = DataLoader(Rows(40), batch_size=4, num_workers=2, persistent_workers=True)
    with observe() as seen:
        next(iter(loader))
        time.sleep(0.05)
        list(loader)
    first, *rest = seen.batches
    assert len(rest) == 10 and all(batch.loader == 1 and batch.ready_us > first.given_us + 40_000 for batch in rest)


def test_of_workers_from_before_the_block_the_waits_are_known_and_the_table_says_so():
    loader = DataLoader(Rows(8), batch_size=4, num_workers=1, persistent_workers=True)
    list(loader)
    _, seen = taken(loader)
    for batch in seen.batches:
        assert batch.dataset_us is batch.collate_us is batch.queued is batch.worker is None and batch.wait_us > 0
    assert "started before the block" in seen.loader_table()


@pytest.mark.audit
def test_workers_that_are_spawned_are_seen_as_well():
    _, seen = taken(DataLoader(Rows(4), batch_size=2, num_workers=1, multiprocessing_context="spawn"))
    assert [batch.samples for batch in seen.batches] == [2, 2] and all(batch.dataset_us > 0 for batch in seen.batches)


def test_a_worker_draws_and_sees_what_it_does_unobserved():
    class Drawn(Rows):
        def __getitem__(self, i):
            info = get_worker_info()
            return float(torch.rand(())), random.random(), info.id, info.num_workers, type(info.dataset).__name__

    def drawn():
        return list(DataLoader(Drawn(4), batch_size=2, num_workers=2, generator=torch.Generator().manual_seed(3)))

    plain = drawn()
    with observe():
        watched = drawn()
    assert repr(watched) == repr(plain)


def test_what_workers_compute_is_not_charged_to_the_loop():
    class Computed(Rows):
        def __getitem__(self, i):
            return torch.ones(1000).exp()

    told = []
    with observe(lambda kind, record: told.append((kind, os.getpid()))) as seen:
        list(DataLoader(Computed(4), batch_size=2, num_workers=1))
    assert not any(op.op == "aten.exp" for op in seen.ops) and [kind for kind, _ in told].count("batch") == 2
    assert {pid for _, pid in told} == {os.getpid()}


def killed(i):
    if i == 5:
        time.sleep(0.3)  # the loop has the batches before, and waits
        os.kill(os.getpid(), signal.SIGKILL)


def raised(i):
    if i == 5:
        raise KeyError("sample 5")


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [(killed, RuntimeError, "exited unexpectedly|is killed by signal"), (raised, KeyError, "sample 5")],
)
def test_a_worker_that_dies_or_raises_is_reported_by_pytorch_and_nothing_hangs(fault, error, words):
    class Faulty(Rows):
        def __getitem__(self, i):
            fault(i)
            return torch.tensor(i)

    def run():
        try:
            with observe() as seen:
                for _ in DataLoader(Faulty(), batch_size=2, num_workers=2):
                    time.sleep(0.01)
        except error as caught:
            caught.__traceback__ = None  # what PyTorch raises again holds its traceback, and that the iterator
            return seen, str(caught)

    seen, message = run()
    assert re.search(words, message) and len(seen.batches) <= 2 and not multiprocessing.active_children()


def test_after_the_block_pytorch_is_as_it_was_and_no_worker_is_left():
    def parts():
        loops = worker._worker_loop, pin_memory._pin_memory_loop
        return (
            *loops,
            _BaseDataLoaderIter.__next__,
            _MultiProcessingDataLoaderIter.__init__,
            _MultiProcessingDataLoaderIter._get_data,
        )

    before = parts()
    with pytest.raises(ZeroDivisionError), observe():
        for _ in DataLoader(Rows(), batch_size=4, num_workers=2):
            1 / 0
    with observe(), observe() as inner:
        loader = DataLoader(Rows(4), batch_size=2)
        list(loader)
    assert parts() == before and len(inner.batches) == 2 and not multiprocessing.active_children()
    assert next(iter(loader)).tolist() == [3 * [0], 3 * [1]]


def test_an_iterator_from_inside_goes_on_after_the_block_and_is_not_recorded():
    with observe() as seen:
        iterator = iter(DataLoader(Rows(), batch_size=4, num_workers=1))
        next(iterator)
    assert len(list(iterator)) == 5 and len(seen.batches) == 1


def test_a_block_whose_watched_workers_tell_no_times_is_an_error(monkeypatch):
    loop, loading = worker._worker_loop, importlib.import_module("gpulab.observe.loading")
    monkeypatch.setattr(loading, "timed_worker_loop", lambda slots, forget, *args: loop(*args))
    with pytest.raises(InstrumentError, match="2 of 2 batches"), observe():
        list(DataLoader(Rows(4), batch_size=2, num_workers=1))


def test_batches_are_plain_data():
    _, seen = taken(DataLoader(Rows(), batch_size=4, num_workers=1))
    again = Observation.from_dict(seen.to_dict())
    assert again.batches == seen.batches and again.loader_table() == seen.loader_table()


def test_the_tables_fit_a_page_and_say_where_nothing_was_taken():
    _, seen = taken(DataLoader(Rows(), batch_size=4, num_workers=2))
    table = seen.loader_table()
    assert max(map(len, f"{table}\n{seen.table()}".splitlines())) <= 80
    assert "6 batches of 24 samples of a DataLoader with 2 workers" in table and "waited" in seen.table()
    with observe() as nothing:
        pass
    assert nothing.loader_table() == "No batch was taken from a DataLoader inside the block."
