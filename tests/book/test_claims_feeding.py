"""Tests that settle the claims of the chapter "Feeding the device", one per claim."""

import io
import os
import tarfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from gpulab import observe
from gpulab.feeding import PLACES, Loader, Stages, Work, bounds, hit_rate, idle, placed, rate, simulate

MAKE, STEP = 0.030, 0.015


class Sleeping(Dataset):
    """Each of 24 samples takes ``seconds``, without a core."""

    def __init__(self, seconds=MAKE):
        self.seconds = seconds

    def __len__(self):
        return 24

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return i


class Computing(Sleeping):
    """The same, with a core: each computes until so much of its processor time is gone."""

    def __getitem__(self, i):
        until = time.process_time() + self.seconds
        while time.process_time() < until:
            pass
        return i


def loop(dataset, step=STEP, **how):
    """The batches of one sample each that a loop took, and the seconds that its steps took on average."""
    steps = []
    with observe() as seen:
        for _ in DataLoader(dataset, 1, **how):
            began = time.monotonic()
            time.sleep(step)
            steps.append(time.monotonic() - began)
    return seen.batches, sum(steps) / len(steps)


def between(batches):
    """Mean seconds from one batch to the next, without the first two."""
    return (batches[-1].given_us - batches[1].given_us) / (len(batches) - 2) / 1e6


def making(batches):
    return sum(batch.dataset_us + batch.collate_us for batch in batches) / len(batches) / 1e6


def suggested():
    """Whether PyTorch warns of this many workers, in a process that may use one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found = {}
    for workers in (1, 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DataLoader(range(4), num_workers=workers)
        found[workers] = [str(one.message) for one in caught]
    return os.cpu_count(), len(os.sched_getaffinity(0)), found


def test_the_machines_cores_are_not_the_jobs_and_pytorch_warns_above_the_jobs():
    with ProcessPoolExecutor(1) as pool:
        machine, job, warned = pool.submit(suggested).result()
    assert (machine, job) == (os.cpu_count(), 1)
    assert not warned[1] and "suggested max number of worker in current system is 1" in warned[2][0]


def late(batches):
    """How many batches were not made when the loop asked for them, without the first two."""
    return sum(batch.ready_us > batch.asked_us for batch in batches[2:])


@pytest.mark.audit  # sleeps are held against each other
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_what_is_needed_is_the_time_of_a_batch_over_that_of_a_step():
    found = {workers: late(loop(Sleeping(0.060), 0.042, num_workers=workers)[0]) for workers in (1, 2, 3)}
    assert found[1] >= 12 and found[2] <= 9 and found[3] <= 9  # 60 ms over 42 ms, rounded up


def test_a_copy_that_does_not_overlap_counts_as_the_devices_time():
    stages, found = Stages(fetch=82, transfer=4, step=25), {}
    for overlap in (False, True):
        rates = {workers: rate(simulate([stages] * 200, Loader(workers, overlap=overlap))) for workers in range(1, 9)}
        found[overlap] = min(workers for workers, reached in rates.items() if reached > 0.99 * rates[8])
    assert found == {False: 3, True: 4}  # 82 over 29, and over 25


def test_past_the_cores_workers_that_compute_add_nothing():
    rates = {
        workers: rate(simulate([Stages(decode=40, step=1)] * 200, Loader(workers, cores=2))) for workers in (1, 2, 4, 8)
    }
    assert rates[2] == pytest.approx(2 * rates[1], rel=0.02)
    assert rates[4] == pytest.approx(rates[2], rel=0.02) and rates[8] == pytest.approx(rates[2], rel=0.02)


class WhoMadeIt(Sleeping):
    def __getitem__(self, i):
        return get_worker_info().id, os.getpid()


def test_all_samples_of_a_batch_come_from_one_worker():
    made = [
        {(int(w), int(pid)) for w, pid in zip(*batch, strict=True)}
        for batch in DataLoader(WhoMadeIt(), 6, num_workers=2)
    ]
    assert [len(makers) for makers in made] == [1, 1, 1, 1] and [makers.pop()[0] for makers in made] == [0, 1, 0, 1]


def workers_needed(size, floor=0.0):
    """The fewest workers that keep the device busy, for batches of ``size`` samples."""
    stages = Stages(fetch=3.0 * size, step=max(floor, 1.0 * size))
    return next(n for n in range(1, 20) if idle(simulate([stages] * 120, Loader(n))) < 0.01)


def test_a_batch_half_as_large_needs_no_more_workers():
    assert [workers_needed(size) for size in (8, 16, 32)] == [3, 3, 3]
    assert [workers_needed(size, floor=16.0) for size in (8, 16, 32)] == [2, 3, 3]


def pids(**how):
    loader = DataLoader(Sleeping(0), 4, num_workers=2, **how)
    with observe() as seen:
        for _ in range(3):
            list(loader)
    return [{batch.pid for batch in seen.batches if batch.loader == number} for number in range(3)]


def test_persistent_workers_are_the_same_processes_in_every_epoch_and_others_are_new():
    first, second, third = pids(persistent_workers=True)
    assert first == second == third and len(first) == 2
    first, second, third = pids()
    assert len(first | second | third) == 6


def test_without_workers_none_can_persist_and_none_can_prefetch():
    for how in ({"persistent_workers": True}, {"prefetch_factor": 4}):
        with pytest.raises(ValueError):
            DataLoader(range(4), num_workers=0, **how)
    assert DataLoader(range(4), num_workers=1).prefetch_factor == 2


@pytest.mark.audit  # sleeps are held against each other
def test_a_longer_queue_behind_slow_workers_makes_no_batch_come_earlier():
    for prefetch in (2, 8):
        batches, _ = loop(Sleeping(), num_workers=1, prefetch_factor=prefetch)
        assert between(batches) > 0.9 * making(batches) and late(batches) >= 12


def test_a_longer_queue_hides_a_batch_that_is_late():
    uneven = [Stages(fetch=100 if i % 8 == 7 else 4, step=20) for i in range(200)]
    idles = [idle(simulate(uneven, Loader(1, prefetch))) for prefetch in (1, 2, 8)]
    assert idles[0] > idles[1] > 0.1 and idles[2] < 0.02
    even = [idle(simulate([Stages(fetch=40, step=20)] * 200, Loader(1, prefetch))) for prefetch in (2, 8)]
    assert even == pytest.approx([0.5, 0.5], abs=0.02)


def test_a_mixed_decode_leaves_its_share_to_the_cores_and_takes_its_share_of_the_device():
    work = Work(fetch=0, decode=200, augment=0, collate=0, pin=0, transfer=0, step=40, parse=0.5, faster=10)
    here = {place: placed(work, place) for place in PLACES}
    assert here["workers"].decode == 200 and here["mixed decode"].decode == 100 and here["hardware decoder"].decode == 0
    assert here["mixed decode"].step == 40 + 100 / 10
    limits = [bounds(here["mixed decode"], Loader(16, cores=cores, overlap=True)) for cores in (1, 4)]
    assert [min(allowed, key=allowed.get) for allowed in limits] == ["cores", "step"]


def in_memory(path, page=4096):
    file, found, pages = os.open(path, os.O_RDONLY), 0, range(0, path.stat().st_size, page)
    for at in reversed(pages):  # asking may make the kernel read what follows
        try:
            os.preadv(file, [bytearray(page)], at, os.RWF_NOWAIT)
            found += 1
        except BlockingIOError:
            pass
        except OSError:
            pytest.skip("this file system does not say which pages are in memory")
    os.close(file)
    return found / len(pages)


def test_a_file_that_was_read_is_in_memory_until_it_is_thrown_out(tmp_path):
    path = tmp_path / "shard.tar"
    path.write_bytes(os.urandom(1 << 20))
    file = os.open(path, os.O_RDWR)
    os.fsync(file)
    assert in_memory(path) == 1
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    assert in_memory(path) < 0.1
    path.read_bytes()
    assert in_memory(path) == 1


def test_half_a_cache_answers_no_half_of_the_reads():
    assert hit_rate(0.5, "the same order") == 0 and hit_rate(0.5) == pytest.approx(0.153, abs=0.001)
    assert hit_rate(1.0) == hit_rate(1.0, "the same order") == 1


class Timed(Dataset):
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, i):
        began = time.process_time()
        self.inner[i]
        return time.process_time() - began


@pytest.mark.audit  # sleeps are held against each other
def test_the_loop_waits_alike_for_workers_that_compute_and_for_workers_that_wait():
    for inner, computes in ((Computing(), True), (Sleeping(), False)):
        cpu = []
        with observe() as seen:
            for took in DataLoader(Timed(inner), 1, num_workers=1):
                cpu.append(float(took))
                time.sleep(0.005)
        assert late(seen.batches) >= 12 and len(cpu) == 24
        assert sum(cpu) > 0.9 * 24 * MAKE if computes else sum(cpu) < 0.3 * 24 * MAKE


class Counted(io.FileIO):
    asked = Counter()

    def __init__(self, path):
        self.asked["opens"] += 1
        super().__init__(str(path))

    def readinto(self, buffer):
        self.asked["reads"] += 1
        return super().readinto(buffer)

    def readall(self):
        self.asked["reads"] += 2  # what is there, and its end
        return super().readall()

    def pread(self, size, at):
        self.asked["reads"] += 1
        return os.pread(self.fileno(), size, at)


@pytest.fixture
def samples(tmp_path):
    """200 samples of two files each, and the same in one shard."""
    names = [f"{i:06}.{kind}" for i in range(200) for kind in ("bin", "cls")]
    for name in names:
        (tmp_path / name).write_bytes(os.urandom(2000) if name.endswith("bin") else b"1")
    with tarfile.open(tmp_path / "shard.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in names:
            tar.add(tmp_path / name, arcname=name)
    return tmp_path, names


def asked(read):
    Counted.asked.clear()
    read()
    return tuple(Counted.asked[what] for what in ("opens", "reads"))


def test_a_shard_is_opened_once_in_any_order_and_read_in_large_pieces_in_sequence(samples):
    folder, names = samples
    order = np.random.default_rng(0).permutation(len(names))

    def files():
        for i in order:
            with io.BufferedReader(Counted(folder / names[i])) as file:
                file.read()

    def streamed():
        with (
            io.BufferedReader(Counted(folder / "shard.tar"), 1 << 16) as file,
            tarfile.open(fileobj=file, mode="r|") as tar,
        ):
            for member in tar:
                tar.extractfile(member).read()

    def by_index():
        with Counted(folder / "shard.tar") as file:
            assert all(file.pread(*spans[i]) == (folder / names[i]).read_bytes() for i in order)

    with tarfile.open(folder / "shard.tar") as tar:
        spans = [(member.size, member.offset_data) for member in tar]
    assert asked(files) == (len(names), 2 * len(names))
    opens, reads = asked(streamed)
    assert opens == 1 and reads <= (folder / "shard.tar").stat().st_size / (1 << 16) + 2
    assert asked(by_index) == (1, len(names))


def test_a_shard_is_an_ordinary_tar_with_a_samples_files_side_by_side(samples):
    folder, names = samples
    assert tarfile.is_tarfile(folder / "shard.tar") and tarfile.open(folder / "shard.tar").getnames() == names
    keys = [name.split(".")[0] for name in names]
    assert keys[::2] == keys[1::2] and (folder / "shard.tar").read_bytes()[:10] == b"000000.bin"


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(30)


def test_every_worker_yields_all_of_a_stream_that_nobody_shares_out():
    for workers, times in ((0, 1), (1, 1), (2, 2)):
        got = Counter(i for batch in DataLoader(Stream(), 5, num_workers=workers) for i in batch.tolist())
        assert got == dict.fromkeys(range(30), times)


def test_with_a_worker_the_loop_takes_the_longer_of_two_times_and_not_their_sum():
    alone, step = loop(Sleeping(0.060), 0.050)
    assert between(alone) > 0.95 * (making(alone) + step)
    beside, step = loop(Sleeping(0.060), 0.050, num_workers=1)
    assert 0.9 * max(making(beside), step) < between(beside) < 0.9 * (making(beside) + step)
    assert torch.utils.data.get_worker_info() is None
