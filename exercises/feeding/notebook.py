# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: nbgrader,tags
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Feeding the device: exercises
#
# What stands between the files and the device, and who waits for whom. Each function is graded for its values and for
# what it did: how often it measured, how it read its files, which processes it kept and which numbers they drew. No
# hidden test measures seconds: a busy machine grades the same.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. Worker processes are real ones here, forked from this notebook.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import io
import os
import random
import tarfile
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

# Forked on every system: a new interpreter, which macOS starts otherwise, would not find the classes of a notebook.
FORKED = {"multiprocessing_context": "fork"}

# %% [markdown]
# ## E11.1 `pipeline_throughput`
#
# A device that computes a third of the time costs as much as one that computes all the time. How fast a loader can feed
# it, and which stage to mend first, follows from a table of stages, before a cluster is rented. Write
# `pipeline_throughput(stages, batch, workers, cores, prefetch)`:
#
# - [c1] `stages`: a list of tuples `(name, where, per, seconds)`, in any order, each with a name of its own. [c2] `per` is `"sample"`
#   or `"batch"`: [c3] for what the stage runs once. [c4] `seconds` is what that takes, 0 or more. [c5] `batch`: samples in a batch;
# - [c6] `where` is `"wait"` for a stage in which whoever makes the batch waits for the storage, and needs no core, and `"core"`
#   for one that computes on a core. [c7] Each of the `workers` **makes whole batches, one after the other, all their stages in
#   turn**. [c8] The workers work side by side, and they share `cores` cores: [c9] what they compute goes no faster than that;
# - [c10] stages in `"main"` run in the thread that trains, those on `"device"` on the device. [c11] The two take turns: [c12] a batch is
#   moved, the device computes it, then the next one is moved. [c13] Neither uses one of the `cores`;
# - [c14] with **no workers** the thread that trains makes the batches itself, and nothing overlaps: [c15] it is the slowest part, and
#   every stage uses it;
# - [c16] `prefetch`: how many batches each worker is asked for before they are needed, 1 or more. [c17] Every batch takes as long as
#   any other: [c18] once the start is over, it makes no difference how many there are. [c19] One worker with one batch asked ahead
#   makes the next batch while the device computes, too;
# - [c20] returns `(rate, idle, bottleneck)` for the long run, once the start is over. [c21] `rate`: samples per second, that of the
#   slowest part: [c22] **the workers together, their cores together, or the thread with its device**. [c23] Due is what this part
#   allows while it always has work. [c24] Workers that wait, and then compute, all at the same moments stay below it, and
#   that is not counted;
# - [c25] `idle`: the share of the time, from 0 to 1, in which the **device** does not compute;
# - [c26] `bottleneck`: the name of the stage that takes longest for one batch, **of those that use the slowest part**. [c27] Where two
#   parts or two stages take equally long, either will do;
# - [c28] the rate and the share are numbers, Python's or NumPy's. [c29] The rate is to be right to 3 %, the share to 0.03;
# - [c30] raises `ValueError` where `batch`, `cores` or `prefetch` is less than 1 or `workers` less than 0; [c31] for a `where` or `per`
#   that is none of these, seconds below 0, or a name that comes twice; [c32] and where the stages on the device take 0 seconds
#   together;
# - [c33] you write it without gpulab, which has what each part allows, too: [c34] a call of it loses the points.

# %% nbgrader={"grade": false, "grade_id": "pipeline_throughput", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pipeline_throughput(stages, batch, workers, cores, prefetch):
    """Samples per second, idle share of the device, and the stage that sets them."""
    ### BEGIN SOLUTION
    require_loader(stages, batch, workers, cores, prefetch)

    def seconds(*places):
        """Of one batch, by stage."""
        return {name: took * (batch if per == "sample" else 1) for name, where, per, took in stages if where in places}

    parts = [(seconds("wait", "core"), workers), (seconds("core"), cores), (seconds("main", "device"), 1)]
    if workers == 0:
        parts = [(seconds("wait", "core", "main", "device"), 1)]
    slowest, many = max(parts, key=lambda part: sum(part[0].values()) / part[1])
    period = sum(slowest.values()) / many
    return batch / period, 1 - sum(seconds("device").values()) / period, max(slowest, key=slowest.get)


def require_loader(stages, batch, workers, cores, prefetch):
    """Raises ValueError for what is no loader."""
    if min(batch, cores, prefetch) < 1 or workers < 0:
        raise ValueError("a batch has a sample, a loader a core and a batch asked for, and workers are counted from 0")
    if len({name for name, *_ in stages}) < len(stages):
        raise ValueError("two stages have one name")
    for name, where, per, took in stages:
        if where not in ("wait", "core", "main", "device") or per not in ("sample", "batch") or took < 0:
            raise ValueError(f"{name} runs in {where!r}, for each {per!r}, in {took} seconds")
    if not any(took for _, where, _, took in stages if where == "device"):
        raise ValueError("nothing runs on the device")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "pipeline_throughput_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_pipeline_throughput():
    """Your rates, and two that real loaders have here."""

    class Asleep(Dataset):
        """Samples that take 3 ms each to be read."""

        def __len__(self):
            return 24

        def __getitem__(self, index):
            time.sleep(0.003)
            return index

    def measured(workers):
        """Samples per second of a real loader, and the share of the time in which the step did not run."""
        stepped, taken = 0.0, []
        for _ in DataLoader(Asleep(), 4, num_workers=workers, **(FORKED if workers else {})):
            taken.append(time.perf_counter())
            time.sleep(0.004)
            stepped += time.perf_counter() - taken[-1]
        watched = taken[-1] - taken[2]
        return 4 * (len(taken) - 3) / watched, 1 - stepped * (len(taken) - 3) / len(taken) / watched

    sleeping = [("read", "wait", "sample", 0.003), ("step", "device", "batch", 0.004)]
    print(f"{'workers':>7}{'samples/s':>11}{'measured here':>15}{'idle':>7}{'measured here':>15}  bottleneck")
    said = {}
    for workers in (0, 1, 2, 4):
        said[workers] = rate, idle, bottleneck = pipeline_throughput(sleeping, 4, workers, 2, 2)
        real_rate, real_idle = measured(workers) if workers in (0, 2) else (None, None)
        shown = f"{real_rate:15.0f}{idle:7.2f}{real_idle:15.2f}" if real_rate else f"{'':15}{idle:7.2f}{'':15}"
        print(f"{workers:7}{rate:11.0f}{shown}  {bottleneck}")

    # What is measured depends on the machine and is only shown; seconds of a table do not.
    assert abs(said[0][0] - 250) < 5, "without workers a batch takes 12 ms to read and 4 ms to train on, one after the other"
    assert abs(said[1][0] - 4 / 0.012) < 5, "one worker reads while the device computes: 12 ms a batch"
    assert abs(said[2][0] - 4 / 0.006) < 15, "two workers that only wait read two batches in 12 ms"
    assert abs(said[4][0] - 1000) < 30, "four workers make a batch in 3 ms, and the device takes 4 ms for it"
    assert abs(said[4][1]) < 0.02, "with four workers the device never waits"
    decoding = [("decode", "core", "sample", 0.003), ("step", "device", "batch", 0.001)]
    crowded = pipeline_throughput(decoding, 4, 8, 2, 2)[0]
    assert abs(crowded - 4 / 0.006) < 20, "eight workers that compute on two cores decode no faster than two cores"


_see_pipeline_throughput()

# %% nbgrader={"grade": true, "grade_id": "pipeline_throughput_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of pipeline_throughput: no workers 1, the training thread 1, the workers 1, the cores 2, samples and
# batches 1, prefetch 1, idle 1, bottleneck 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("feeding.pipeline_throughput")
### END HIDDEN TESTS

# %% [markdown]
# ## E11.2 `pick_workers`
#
# How many workers? Too few starve the device; too many take cores from the other ranks and memory from everyone. "Eight"
# and "half of the cores" are answers for one job on one machine. Write `pick_workers(measure, cores, ranks_per_node)`,
# which finds the number for the job at hand:
#
# - [c1] `cores`: the set of core numbers that this job may run on, as `os.sched_getaffinity(0)` gives it: [c2] a container or a
#   scheduler often grants fewer than the machine has. [c3] The `ranks_per_node` ranks of the job **share them evenly**, and
#   each keeps one core for its training process. [c4] What is left for the workers of a rank is its budget, a whole number;
#   [c5] where nothing is left it is 0;
# - [c6] `measure(workers)` trains for some minutes with so many workers in each rank, and returns the rate in samples per
#   second, more than 0. [c7] Two calls with one number may differ, each by up to half a percent of the true rate;
# - [c8] up to a certain number of workers, the knee, **each worker more adds at least 4 %** to the true rate. [c9] Beyond it the rate
#   stays as it is, or it falls with each further worker. [c10] The knee may be 0, where workers bring nothing, and it may
#   lie beyond the budget;
# - [c11] returns a Python integer: [c12] the knee, or the budget where the rate rises that far;
# - [c13] **`measure` is never called with more than the budget**: [c14] workers that have no core slow down the other ranks;
# - [c15] with a budget of `b` binary digits (`budget.bit_length()`) it is called at most `3 * b` times, and with a budget of 0
#   not at all;
# - [c16] raises `ValueError`, before anything is measured, for `ranks_per_node` less than 1 and for an empty set of cores. [c17] What
#   `measure` raises comes through.

# %% nbgrader={"grade": false, "grade_id": "pick_workers", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pick_workers(measure, cores, ranks_per_node):
    """The fewest workers of a rank that train as fast as any number within its share of the cores."""
    ### BEGIN SOLUTION
    if ranks_per_node < 1 or not cores:
        raise ValueError(f"{ranks_per_node} ranks on {len(cores)} cores")
    fewest, most = 0, max(len(cores) // ranks_per_node - 1, 0)
    while fewest < most:
        middle = (fewest + most) // 2
        # Two calls differ by 1 % at most where the rate stays, and by 3 % at least where it rises.
        if measure(middle + 1) > 1.02 * measure(middle):
            fewest = middle + 1
        else:
            most = middle
    return fewest
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "pick_workers_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_pick_workers():
    """What was measured and picked in four jobs."""

    def job(knee, beyond):
        """A job whose rate rises up to a knee and changes by a factor for each worker beyond; what it measured is noted."""

        def measure(workers):
            noted.append(workers)
            noise = 1 + 0.005 * (-1) ** len(noted)
            return 100 * min(1 + workers, 1 + knee) * beyond ** max(workers - knee, 0) * noise

        return measure

    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"this machine has {os.cpu_count()} cores, and this notebook may use {here}\n")
    print(f"{'cores':>5}{'ranks':>6}{'budget':>7}{'knee':>5}{'picked':>7}  measured")
    for granted, ranks, knee, beyond in ((40, 4, 6, 1.0), (64, 2, 9, 0.99), (16, 2, 20, 1.0), (8, 8, 3, 1.0)):
        noted, budget = [], granted // ranks - 1
        picked = pick_workers(job(knee, beyond), set(range(7, 7 + granted)), ranks)
        print(f"{granted:5}{ranks:6}{budget:7}{knee:5}{picked:7}  {noted}")
        assert max(noted, default=0) <= budget, f"{max(noted)} workers were tried, and each rank has cores for {budget}"
        assert len(noted) <= 3 * budget.bit_length(), f"{len(noted)} calls, where {3 * budget.bit_length()} have to be enough"
        assert picked == min(knee, budget), f"{picked} workers, where the rate rises up to {knee} and there are cores for {budget}"


_see_pick_workers()

# %% nbgrader={"grade": true, "grade_id": "pick_workers_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of pick_workers: the knee 2, the budget 2, rates that fall 1, noise 1, few calls 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("feeding.pick_workers")
### END HIDDEN TESTS

# %% [markdown]
# ## E11.3 `tar_shards`
#
# A million small files are a million requests. Packed into tar files of some hundred megabytes each, shards, they are read
# as streams; what is lost is that any sample can be had at any time. Write
# `tar_shards(paths, open_shard, rank, world_size, seed)`, which returns a dataset over such shards, an `IterableDataset`:
#
# - [c1] `paths`: a list of shards, names that `open_shard` alone can open. [c2] A sample is a run of files in a shard that have **one key: [c3] the name up to the first dot of its
#   last part**, folders included. [c4] What follows that dot is the extension: [c5] `v1.2/007.seg.png` has the key `v1.2/007` and the
#   extension `seg.png`, in the letters that it has. [c6] This is the format of WebDataset;
# - [c7] the dataset gives each sample as a dictionary: [c8] its key under `"__key__"`, and the bytes of each file under its
#   extension. [c9] The samples of a shard come in the order of the file. [c10] Folders, links and files whose last part has no dot, or
#   begins with one (`.DS_Store`), are passed over as if they were not there: [c11] they end no sample, and hold little.
#   [c12] **A shard's end ends a sample**: [c13] the same key in the next one is another sample;
# - [c14] shards are written by Python's `tarfile`, whose names may be longer than the 100 bytes that a header has for them;
# - [c15] `open_shard(path)` opens a shard: [c16] a raw stream of bytes with `read(size)`, **which may give fewer bytes than it is asked
#   for**, and a context manager. [c17] It can also `seek`, and a store answers each seek with another request. [c18] So **read each
#   shard from front to back in one go, and never seek**;
# - [c19] a shard may be larger than the memory. [c20] No `read` asks for more than 64 KiB, and **when a sample is given, no more
#   than 64 KiB behind its last file have been read**. [c21] One shard is open at a time, none that is not due is opened, and each
#   is closed when its last sample was given, at the latest when the next is asked for, or where the iteration is left
#   before that;
# - [c22] `set_epoch(epoch)`, a method of the dataset, says which epoch the iterators give whose first sample is asked for after
#   it; [c23] 0 until it is called. [c24] An iteration that runs goes on as it began. [c25] **Worker processes may be there already, and
#   stay**: [c26] a call in the process that trains counts for them too. [c27] The number lies where forked processes share it, as in
#   torch's `share_memory_()` or in `multiprocessing`'s `Value` or `SharedMemory`, and no process of your own keeps it. [c28] An
#   epoch is an integer from 0 to a million;
# - [c29] for each epoch **all shards are put in a new order that depends on `seed` and `epoch` alone**: [c30] it is the same on every
#   rank, in processes that were started apart, and wherever the shards lie. [c31] Two pairs of seed and epoch have different
#   orders, also where their sums are equal or an epoch is large;
# - [c32] of that order the `world_size` ranks take turns, shard by shard (rank 0 has the first), so that **each has equally many**.
#   [c33] The workers of a rank take turns at what the rank has, in that order (`torch.utils.data.get_worker_info()`). [c34] **Each
#   sample comes once in an epoch**, over all ranks and workers, whatever the number of workers;
# - [c35] the states of `random` and of NumPy's and `torch`'s global generators are the same after an iteration as before;
# - [c36] all shards have equally many samples. [c37] Raises `ValueError` at once for an empty list, for a number of shards that
#   `world_size` does not divide, and for a `rank` that is not from 0 to `world_size - 1`.

# %% nbgrader={"grade": false, "grade_id": "tar_shards", "locked": false, "schema_version": 3, "solution": true, "task": false}
def tar_shards(paths, open_shard, rank, world_size, seed):
    """A dataset over the samples of this rank's tar files, in an order of each epoch's own."""
    ### BEGIN SOLUTION
    if not paths or not 0 <= rank < world_size or len(paths) % world_size:
        raise ValueError(f"{len(paths)} shards for rank {rank} of {world_size}")
    return TarShards(paths, open_shard, rank, world_size, seed)


class TarShards(IterableDataset):
    """Every rank has its share of the shards, and every worker its share of the rank's."""

    def __init__(self, paths, open_shard, rank, world_size, seed):
        self.paths, self.open_shard, self.rank, self.world_size, self.seed = paths, open_shard, rank, world_size, seed
        # In shared memory: the copies that worker processes have show the same number.
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch):
        self.epoch.fill_(epoch)

    def __iter__(self):
        order = list(self.paths)
        random.Random(f"{self.seed} {self.epoch.item()}").shuffle(order)
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for path in order[self.rank :: self.world_size][worker::workers]:
            with self.open_shard(path) as stream:
                yield from samples_of(stream)


def samples_of(stream):
    """The samples of one tar file that is read from front to back."""
    sample = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            folder, slash, name = member.name.rpartition("/")
            stem, dot, extension = name.partition(".")
            if not member.isfile() or not stem or not dot:
                continue
            key = folder + slash + stem
            if sample and sample["__key__"] != key:
                yield sample
                sample = {}
            sample["__key__"] = key
            sample[extension] = archive.extractfile(member).read()
    if sample:
        yield sample
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "tar_shards_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_tar_shards():
    """Two epochs of two ranks, and one process alone."""

    class Stream(io.FileIO):
        """A file that counts its reads and seeks."""

        def readinto(self, buffer):
            self.reads += 1
            return super().readinto(buffer)

        def read(self, size=-1):
            self.reads += 1
            return super().read(size)

        def seek(self, *where):
            self.seeks += 1
            return super().seek(*where)

    def open_shard(name):
        opened.append(Stream(os.path.join(folder, name)))
        opened[-1].reads = opened[-1].seeks = 0
        return opened[-1]

    def write_shards(folder, shards, samples):
        """Tar files of samples with a picture of 3,000 bytes and a label each; their names."""
        names = [f"train-{shard:03}.tar" for shard in range(shards)]
        for shard, name in enumerate(names):
            with tarfile.open(os.path.join(folder, name), "w") as archive:
                for number in range(samples):
                    for extension, data in (("jpg", bytes([shard]) * 3000), ("cls", b"%d" % number)):
                        member = tarfile.TarInfo(f"{shard:03}/{number:03}.{extension}")
                        member.size = len(data)
                        archive.addfile(member, io.BytesIO(data))
        return names

    def with_worker(sample):
        """The number of the worker that gives the sample, 0 where there is none."""
        return (get_worker_info().id if get_worker_info() else 0), sample

    # Rank 0 has two worker processes, rank 1 none.
    with tempfile.TemporaryDirectory() as folder:
        opened, came = [], {}
        names = write_shards(folder, 6, 8)
        for rank in range(2):
            dataset = tar_shards(names, open_shard, rank, 2, 11)
            workers = {} if rank else {"num_workers": 2, "persistent_workers": True, **FORKED}
            loader = DataLoader(dataset, None, collate_fn=with_worker, **workers)
            for epoch in range(2):
                dataset.set_epoch(epoch)
                for worker, sample in loader:
                    came.setdefault((epoch, rank, worker), []).append(sample["__key__"])
            del loader
        print(f"{'epoch':>5}{'rank':>5}{'worker':>7}{'samples':>8}  shards in order")
        for (epoch, rank, worker), keys in sorted(came.items()):
            print(f"{epoch:5}{rank:5}{worker:7}{len(keys):8}  {' '.join(dict.fromkeys(key[:3] for key in keys))}")
        alone = [sample for sample in tar_shards(names, open_shard, 0, 1, 11)]
        reads, seeks, still_open = (sum(getattr(stream, what) for stream in opened) for what in ("reads", "seeks", "closed"))
        print(f"\none process: {len(alone)} samples, {len(opened)} shards opened, {reads} reads, {seeks} seeks")

    due = sorted(f"{shard:03}/{number:03}" for shard in range(6) for number in range(8))
    for epoch in range(2):
        got = sorted(key for (of, _, _), keys in came.items() if of == epoch for key in keys)
        assert got == due, f"epoch {epoch}: {len(got)} samples came, {len(set(got))} of them different; {len(due)} are due, each once"
    assert came[0, 0, 0] != came[1, 0, 0], "a worker that stays gives the second epoch in the order of the first"
    assert set(alone[0]) == {"__key__", "jpg", "cls"} and len(alone[0]["jpg"]) == 3000, "a sample has its key and the bytes of its two files"
    assert sorted(sample["__key__"] for sample in alone) == due, "one process without workers gives every sample once"
    assert seeks == 0, "the streams were set to other places: a store answers each with another request"
    assert all(stream.closed for stream in opened), "a shard was left open"


_see_tar_shards()

# %% nbgrader={"grade": true, "grade_id": "tar_shards_hidden", "locked": true, "points": 11, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of tar_shards: samples 2, each once 2, equally many 1, shuffled 1, repeatable 1, one stream 2, processes 1,
# errors 1. Most parts are played in one process, as if it were worker k of n; some in real worker processes.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("feeding.tar_shards")
### END HIDDEN TESTS

# %% [markdown]
# ## E11.4 `make_loader`
#
# PyTorch seeds Python's `random`, NumPy's global generator and its own in every worker process, each worker differently.
# That settles less than one hopes: what it seeds them with comes from the state of the process that trains, which every
# rank has set to the same seed; and a generator that a dataset holds is copied as it is. Write
# `make_loader(dataset, config)`, which returns a `torch.utils.data.DataLoader`:
#
# - [c1] `dataset`: map-style. Its samples are tensors, and for each it draws random numbers: [c2] from `random`, from `numpy.random`
#   and from `torch`'s global generator, and from `dataset.rng`, a `numpy.random.Generator`, where it has that attribute,
#   and nothing where it has not;
# - [c3] `config`: a dictionary with `"batch"`, samples in a batch, `"workers"`, processes, `"prefetch"`, batches asked ahead of
#   each worker, or `None` for PyTorch's own number, `"seed"`, `"rank"`, and `"sampler"`, which gives indices. [c4] **The batches
#   are those of the sampler, asked anew in every epoch**, in its order; [c5] the last one is smaller where they do not divide;
# - [c6] **the worker processes of the first epoch make the batches of all that follow**, as many as `"workers"` says;
# - [c7] **no two workers and no two epochs draw the same numbers** from any of the four. [c8] The copy of `dataset.rng` that a worker
#   has is replaced in that worker; [c9] the caller's stays as it is, and so does `config`;
# - [c10] what the workers draw **depends on `"seed"` and `"rank"`, and no two pairs of these have numbers in common**, also where
#   their sums are equal or a rank is large. [c11] It depends on nothing else: [c12] the same configuration gives the same numbers again, whatever was
#   drawn from the caller's generators before. [c13] Making the loader and going through it leaves those generators as they were;
# - [c14] with **no workers** the process that trains makes the samples, with its own generators as they are, `dataset.rng` too;
#   [c15] `"prefetch"` then has no meaning, and is passed over;
# - [c16] memory is pinned if PyTorch finds an accelerator, of whatever kind, and only then (`torch.accelerator.is_available()`);
# - [c17] raises `ValueError` for a key that is missing and for one that is none of the six; [c18] for a `"batch"` or `"prefetch"` less
#   than 1, with no workers too, and a `"workers"`, `"seed"` or `"rank"` less than 0; [c19] and for one of these five that is no
#   `int`. [c20] A bool counts as none, and `None` as one for `"prefetch"` only. [c21] What NumPy calls an integer may be refused or taken.

# %% nbgrader={"grade": false, "grade_id": "make_loader", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_loader(dataset, config):
    """A DataLoader whose workers stay and draw numbers of their own, the same in each run."""
    ### BEGIN SOLUTION
    require_config(config)
    # Entropy of two numbers, mixed: a sum would make rank 1 of one seed rank 0 of the next.
    (state,) = np.random.SeedSequence([config["seed"], config["rank"]]).generate_state(1, np.uint64)
    settings = {}
    if config["workers"]:
        settings = {"persistent_workers": True, "prefetch_factor": config["prefetch"], "worker_init_fn": renew_rng}
    return DataLoader(
        dataset,
        config["batch"],
        sampler=config["sampler"],
        num_workers=config["workers"],
        generator=torch.Generator().manual_seed(int(state >> np.uint64(1))),
        pin_memory=torch.accelerator.is_available(),
        **settings,
    )


def renew_rng(worker):
    """In a worker process: a generator of its own for its copy of the dataset."""
    info = get_worker_info()
    if hasattr(info.dataset, "rng"):
        info.dataset.rng = np.random.default_rng(info.seed)


def require_config(config):
    """Raises ValueError for what is no configuration."""
    least = {"batch": 1, "workers": 0, "prefetch": 1, "seed": 0, "rank": 0}
    if config.keys() != {*least, "sampler"}:
        raise ValueError(f"keys that are missing or too many: {config.keys() ^ {*least, 'sampler'}}")
    for name, low in least.items():
        value = config[name]
        if name == "prefetch" and value is None:
            continue
        if type(value) is not int or value < low:
            raise ValueError(f"{name} is {value!r}; an integer of {low} or more is due")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "make_loader_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_make_loader():
    """Two epochs of two ranks, with the numbers that each sample was made with."""

    class Augmented(Dataset):
        """Samples of (index, process, numbers from random, NumPy, torch and a generator of the dataset's own)."""

        def __init__(self):
            self.rng = np.random.default_rng(0)

        def __len__(self):
            return 8

        def __getitem__(self, index):
            numbers = random.randrange(10**6), np.random.randint(10**6), int(torch.randint(10**6, ())), self.rng.integers(10**6)
            return torch.tensor([index, os.getpid(), *numbers])

    def epochs_of(rank, workers=2):
        """Two epochs of one rank, as one tensor each."""
        torch.manual_seed(0)  # as every rank does
        config = {"batch": 2, "workers": workers, "prefetch": None, "seed": 0, "rank": rank, "sampler": list(range(8))}
        loader = make_loader(Augmented(), config)
        assert isinstance(loader, DataLoader), f"make_loader returned {type(loader).__name__}; a DataLoader is due"
        if workers:
            loader.multiprocessing_context = FORKED["multiprocessing_context"]
        return [torch.cat(list(loader)) for _ in range(2)]

    seen = {rank: epochs_of(rank) for rank in range(2)}
    print(f"{'rank':>4}{'epoch':>6}{'index':>6}{'process':>9}{'random':>8}{'NumPy':>8}{'torch':>8}{'own':>8}")
    for rank, epochs in seen.items():
        for epoch, samples in enumerate(epochs):
            for index, process, *numbers in samples[:3].tolist():
                print(f"{rank:4}{epoch:6}{index:6}{process:9}" + "".join(f"{number:8}" for number in numbers))

    everything = torch.cat([samples for epochs in seen.values() for samples in epochs])
    for place, source in enumerate(("random", "NumPy", "torch", "the dataset's own generator"), 2):
        twice = len(everything) - len(everything[:, place].unique())
        assert not twice, f"{twice} of {len(everything)} samples were made with numbers from {source} that another one was made with"
    first, second = (set(samples[:, 1].tolist()) for samples in seen[0])
    assert len(first) == 2 and first == second, f"epoch 0 was made by processes {first}, epoch 1 by {second}"
    assert torch.equal(epochs_of(1)[1][:, 2:], seen[1][1][:, 2:]), "the same configuration gave other numbers when it was run again"
    assert set(epochs_of(0, 0)[0][:, 1].tolist()) == {os.getpid()}, "without workers this process makes the samples"


_see_make_loader()

# %% nbgrader={"grade": true, "grade_id": "make_loader_hidden", "locked": true, "points": 11, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of make_loader: batches 1, no workers 1, processes that stay 2, distinct numbers 2, ranks and seeds 1,
# repeatable 1, pinned 1, prefetch 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("feeding.make_loader")
### END HIDDEN TESTS
