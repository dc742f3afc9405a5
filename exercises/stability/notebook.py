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
# # Staying alive: stability, schedules, checkpoints: exercises
#
# Three of these exercises run among ranks. Beside the values it is graded what crosses between the ranks, how many
# kernels and waits a norm costs, what a refused step leaves behind, and which files a killed process leaves.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import io
import math
import os
import random
import statistics
import tempfile
from collections import deque

import gpulab
import numpy as np
import torch

# %% [markdown]
# ## E17.1 `clip_global`
#
# One bad batch has a gradient a hundred times as long as any other, and a step that follows it may undo a day of training.
# Clipping by the global norm shortens all gradients by one factor: the direction of the step stays. PyTorch's
# `clip_grad_norm_` does this, and the cell below shows what else it does. A norm that is not finite makes the factor NaN or
# 0, and one element of one gradient spoils them all.

# %% nbgrader={"grade": false, "grade_id": "clip_global_torch", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch.distributed as dist
from gpulab.collectives import run_ranks
from torch import nn

gpulab.cuda.use()


def with_gradients(count=40, seed=0):
    """Parameters of 8 x 16 on the card, with gradients of norm 1.1 each."""
    torch.manual_seed(seed)
    made = [nn.Parameter(torch.zeros(8, 16, device="cuda")) for _ in range(count)]
    for parameter in made:
        parameter.grad = torch.randn(8, 16, device="cuda") / 10
    return made


def cosine(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=0).item()


def flat(parameters):
    return torch.cat([parameter.grad.flatten().cpu() for parameter in parameters])


for clip, named in ((nn.utils.clip_grad_norm_, {"max_norm": 0.5}), (nn.utils.clip_grad_value_, {"clip_value": 0.05})):
    parameters = with_gradients()
    before = flat(parameters)
    with gpulab.observe() as seen:
        clip(parameters, **named, foreach=True)
    print(f"{clip.__name__:17} {len(seen.kernels):2} launches, {len(seen.waits)} waits,", end=" ")
    print(f"cosine of before and after {cosine(before, flat(parameters)):.4f}")

parameters = with_gradients()
parameters[7].grad[3, 3] = float("nan")
nn.utils.clip_grad_norm_(parameters, 0.5)
print(f"one NaN among {before.numel()} elements: after clip_grad_norm_ there are {flat(parameters).isnan().sum()}")

# %% [markdown]
# Write `clip_global(parameters, max_norm, group=None)`:
#
# - [c1] `parameters`: an iterable, gone through once, of parameters on the card. [c2] Those whose `.grad` is `None` are left out. [c3] All
#   gradients have one dtype, `float32` or `bfloat16`, and any shape, also without elements; [c4] they may be slices of one buffer;
# - [c5] `max_norm`: a number, 0 or more, or infinity;
# - [c6] returns the **global norm** of the gradients as they came, the root of the sum of all their elements' squares: [c7] a tensor of
#   no dimensions on the card, `float32`. [c8] Squares are added up in `float32`, also those of `bfloat16`. [c9] Without any gradients
#   it is 0;
# - [c10] where the norm is greater than `max_norm`, every gradient is **multiplied by one factor**, `max_norm` / norm, so that the
#   direction stays. [c11] The norm may have 1e-6 added to it in this quotient, as PyTorch has it;
# - [c12] where the norm is not greater, gradients **stay as they are**, to the last bit; [c13] so zeros stay zeros, whatever `max_norm` is;
# - [c14] gradients are written **in place**: [c15] `.grad` stays the tensor that it is, in its memory and dtype;
# - [c16] **where the norm is not finite**, NaN or infinite, all gradients stay as they are, and the norm is returned as it is. [c17] Whoever
#   called looks at it and leaves out the step;
# - [c18] with a process group as `group`, each of its ranks calls with its own **shards** of the gradients, whose elements belong to
#   it alone. [c19] The norm is that of all ranks' gradients together, the same in all ranks, and so is the factor. [c20] The sum of squares
#   crosses in **one all-reduce** of one element in `group`, which sums, and nothing else does. [c21] A rank without gradients takes
#   part too;
# - [c22] without `group` nothing crosses, though there may be a default process group;
# - [c23] **the host never waits** for the card;
# - [c24] for up to a hundred parameters there are **at most 30 launches**, however many parameters there are: [c25] lists go to
#   `torch._foreach_norm` and `torch._foreach_mul_`, which make one launch of them;
# - [c26] **no copy** of the gradients is made: [c27] new memory is less than a quarter of theirs, where they have 64 elements or more each;
# - [c28] raises `ValueError` where `max_norm` is less than 0 or NaN. [c29] Gradients are then as they were, and nothing has crossed.

# %% nbgrader={"grade": false, "grade_id": "clip_global", "locked": false, "schema_version": 3, "solution": true, "task": false}
def clip_global(parameters, max_norm, group=None):
    """Shorten all gradients by one factor, so that their global norm is ``max_norm`` at most; returns what it was."""
    ### BEGIN SOLUTION
    if not max_norm >= 0:
        raise ValueError(f"max_norm {max_norm}")
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = torch.zeros((), device="cuda")
    if grads:
        squares += torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float32)).square().sum()
    if group is not None:
        dist.all_reduce(squares, group=group)
    norm = squares.sqrt()
    is_long = norm.isfinite() & (norm > max_norm)
    factor = torch.where(is_long, max_norm / norm, 1.0)
    if grads:
        torch._foreach_mul_(grads, factor)
    return norm
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "clip_global_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_clip_global():
    """Few and many gradients, one of NaN, and shards on two ranks."""
    for count in (4, 40):
        parameters, theirs = with_gradients(count), with_gradients(count)
        before = flat(parameters)
        with gpulab.observe() as seen:
            norm = clip_global(parameters, 0.5)
        due = nn.utils.clip_grad_norm_(theirs, 0.5).item()
        print(f"{count} gradients: norm {norm.item():.4f}, {len(seen.kernels)} launches, {len(seen.waits)} waits, {seen.peak_bytes} bytes")
        assert abs(norm.item() - due) < 1e-4, f"clip_grad_norm_ says {due:.4f}"
        assert torch.allclose(flat(parameters), flat(theirs), atol=1e-6), "the gradients are not what clip_grad_norm_ leaves"
        assert cosine(before, flat(parameters)) > 0.99999, "the direction has changed"
        assert not seen.waits, "the host waited: the norm is needed on the card alone"
        assert len(seen.kernels) <= 30, "launches grow with the number of parameters"

    parameters[7].grad[3, 3] = float("nan")
    before = flat(parameters)
    norm = clip_global(parameters, 0.5)
    print(f"with a NaN the norm is {norm.item()}, and {flat(parameters).isnan().sum()} element is NaN")
    assert norm.isnan() and flat(parameters).isnan().sum() == 1, "a NaN is reported, and spreads to no other element"

    def in_shards(rank, world):
        """Every other parameter is this rank's."""
        own = with_gradients()[rank::world]
        return clip_global(own, 0.5, dist.group.WORLD), flat(own).norm()

    run = run_ranks(in_shards, 2)
    print(run.table())
    for norm, left in run.results:
        assert abs(norm.item() - due) < 1e-4, f"a rank's norm is {norm.item():.4f}; that of all shards together is due: {due:.4f}"
    assert abs(sum(left.item() ** 2 for _, left in run.results) ** 0.5 - 0.5) < 1e-4, "together the shards have not the norm 0.5"
    assert [(entry.operation, entry.bytes) for entry in run.journal] == [("all_reduce", 4)], "one all-reduce of one element is due"


_see_clip_global()

# %% nbgrader={"grade": true, "grade_id": "clip_global_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of clip_global: norm 2, clipped 2, device 2, shards 1, finite 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("stability.clip_global")
### END HIDDEN TESTS

# %% [markdown]
# ## E17.2 `lr_at`
#
# A schedule decides the learning rate of every step: it rises while Adam's moments are still made of few gradients, and then
# falls along half a cosine. The schedule is written once, in numbers of *steps*, while the loop counts micro-batches and
# epochs, and it has to go on after a restart as if nothing had happened. The cell below asks PyTorch's own schedulers, for
# 4 steps of warm-up and 20 in all, and goes on asking after the end.

# %% nbgrader={"grade": false, "grade_id": "lr_at_torch", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_lr_at_torch():
    """The rates of PyTorch's schedulers."""
    import warnings

    from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

    warnings.filterwarnings("ignore", ".*epoch parameter in `scheduler.step", UserWarning)

    def by_pytorch(peak, floor, warmup, total, steps):
        """The rate of each step as SequentialLR gives it."""
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
        rising = LinearLR(optimizer, start_factor=1 / (warmup + 1), total_iters=warmup)
        falling = CosineAnnealingLR(optimizer, total - warmup, eta_min=floor)
        schedule = SequentialLR(optimizer, [rising, falling], milestones=[warmup])
        rates = []
        for _ in range(steps):
            rates.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        return rates

    OF_TORCH = by_pytorch(peak=3e-4, floor=3e-5, warmup=4, total=20, steps=30)

    def drawn(rates):
        for step, rate in enumerate(rates):
            print(f"step {step:2}  {rate:.2e}  {'#' * round(rate / 3e-4 * 60)}")

    drawn(OF_TORCH)
    return OF_TORCH, drawn


_OF_TORCH, _drawn = _show_lr_at_torch()

# %% [markdown]
# Write `lr_at(step, config)`:
#
# - [c1] `step`: an integer, how many optimizer steps were made before: [c2] 0 for the first step;
# - [c3] `config`: a dictionary. `"peak"` and `"floor"` are learning rates. [c4] `"warmup_steps"`, W, counts optimizer steps. [c5] Each of
#   `"epochs"` epochs has `"micro_batches"` micro-batches, and the gradients of `"accumulate"` of them make **one optimizer
#   step**; [c6] those that are left over at the end of an epoch make one step too. [c7] Let T be all optimizer steps of the run.
#   [c8] Other entries make no difference;
# - [c9] returns the learning rate of the step, a Python `float`;
# - [c10] **warm-up**: in step s < W it is peak · (s + 1) / (W + 1). [c11] So the first step's rate is not 0, each step adds as
#   much as the one before, and **step W has the peak**. [c12] W may be 0. [c13] The floor holds nothing up here;
# - [c14] **decay**: from step W on it falls along half a cosine, to the floor in step T: [c15] midway between W and T it
#   is midway between peak and floor, and at both ends the curve is level;
# - [c16] **after the end** it stays at the floor, in step T and however many steps follow;
# - [c17] **after a restart** it is the same, as the result depends on the two arguments alone, whatever was asked before, and for
#   whichever config. [c18] `config` is not changed;
# - [c19] a rate may be wrong by rounding, up to a billionth of the peak;
# - [c20] raises `ValueError` for `step` less than 0; [c21] for `peak` not greater than 0; [c22] for `floor` less than 0 or greater than
#   `peak`, which it may be equal to; [c23] for `epochs`, `micro_batches` or `accumulate` less than 1; [c24] and for
#   `warmup_steps` less than 0 or not less than T.

# %% nbgrader={"grade": false, "grade_id": "lr_at", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lr_at(step, config):
    """The learning rate of the optimizer step that follows ``step`` others: warm-up, half a cosine, the floor."""
    ### BEGIN SOLUTION
    peak, floor, warmup = config["peak"], config["floor"], config["warmup_steps"]
    if step < 0 or not 0 <= floor <= peak or peak <= 0:
        raise ValueError(f"step {step}, floor {floor}, peak {peak}")
    if min(config["epochs"], config["micro_batches"], config["accumulate"]) < 1:
        raise ValueError("a run without steps")
    total = config["epochs"] * math.ceil(config["micro_batches"] / config["accumulate"])
    if not 0 <= warmup < total:
        raise ValueError(f"{warmup} steps of warm-up in a run of {total}")
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = min((step - warmup) / (total - warmup), 1.0)
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "lr_at_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_lr_at():
    """Your rates beside those of PyTorch's schedulers."""
    config = {"peak": 3e-4, "floor": 3e-5, "warmup_steps": 4, "epochs": 2, "micro_batches": 38, "accumulate": 4}
    rates = [lr_at(step, config) for step in range(30)]
    _drawn(rates)

    assert all(type(rate) is float for rate in rates), "a Python float is due for each step"
    assert rates[0] > 0, "with a rate of 0 the first step changes nothing"
    assert abs(max(rates) - rates[4]) < 1e-12, "behind 4 steps of warm-up step 4 has the peak"
    for step, (mine, theirs) in enumerate(zip(rates, _OF_TORCH)):
        if step <= 20:
            assert abs(mine - theirs) < 1e-12, f"step {step}: PyTorch's schedulers say {theirs:.3e}, in a run of 20 steps"
        else:
            assert abs(mine - 3e-5) < 1e-12, f"step {step} lies behind the end, and the rate is not the floor: {mine:.3e}"
    assert lr_at(11, config) == rates[11], "asked once more, out of turn, it is another rate: as it would be after a restart"
    print("\nPyTorch's cosine rises again after the end; yours does not")


_see_lr_at()

# %% nbgrader={"grade": true, "grade_id": "lr_at_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of lr_at: warmup 2, decay 2, steps 1, after 1, restart 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("stability.lr_at")
### END HIDDEN TESTS

# %% [markdown]
# ## E17.3 `save_state` and `load_state`
#
# "Saving the generator's state makes a run repeatable." It takes more than torch's generator: Python and NumPy have their own,
# in every rank another; a schedule, a loss scale and a sampler have come to some place. And whoever writes over the only
# checkpoint has none while writing. The cell below stops a process in the middle of `torch.save`, by a limit on the
# size of files, and looks at what is left of the checkpoint that was there.

# %% nbgrader={"grade": false, "grade_id": "save_state_torch", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_save_state_torch():
    """A save that is killed, and what is left."""
    import resource
    import signal

    def stopped_within(nbytes, save):
        """Call save in a process that the system kills when a file grows beyond so many bytes; whether it was killed."""
        pid = os.fork()
        if pid == 0:
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))
                save()
            finally:  # whatever save raises, this process is no second notebook
                os._exit(0)
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

    FOLDER = tempfile.mkdtemp()
    only = os.path.join(FOLDER, "only.pt")
    torch.save({"weights": torch.zeros(1000)}, only)
    killed = stopped_within(2000, lambda: torch.save({"weights": torch.ones(1000)}, only))
    try:
        torch.load(only, weights_only=True)
    except Exception as error:
        print(f"killed: {killed}, left are {os.path.getsize(only)} bytes, and torch.load says: {str(error)[:70]}")
    os.remove(only)
    return stopped_within, FOLDER


_stopped_within, _FOLDER = _show_save_state_torch()

# %% [markdown]
# Write `save_state(path, state)` and `load_state(path, state)`. All tensors lie on the host. Where there is a default process
# group, all its n ranks call them at once with one path; where there is none, the process is the only rank:
#
# - [c1] `state`: a dictionary of names and objects that have `state_dict()` and `load_state_dict(saved)`, as models, optimizers,
#   schedules, gradient scalers and samplers do. [c2] What `state_dict()` gives is tensors, numbers, strings, `None`, and
#   dictionaries, lists and tuples of these. [c3] Every rank has objects of its own, in states of their own;
# - [c4] `save_state` saves of **every rank** what its objects' `state_dict()` give, and the states of **three generators**: [c5] that of
#   Python's `random`, NumPy's global one and torch's default one;
# - [c6] **one rank** gets what the others have: [c7] a rank that does not write receives less than 4 KiB in a save, since a job's whole
#   state has no room in every process;
# - [c8] `load_state` gives each rank its own back, by `load_state_dict` and into the generators, in a process that was started
#   anew. [c9] What is computed afterwards is what would have been computed behind the save, **to the last bit**;
# - [c10] saving changes nothing: the run goes on as it would without it;
# - [c11] all is saved in **one file** at `path`, which may be there already. [c12] When `save_state` returns in any rank the whole file
#   is there, and the folder has no other file than before;
# - [c13] **a kill at any moment** of a save leaves a whole checkpoint at `path`, the old one or the new. [c14] So it is written to another file
#   in the same folder, which is renamed to `path` when it is complete;
# - [c15] before that the other file's bytes are **on the disk**: [c16] `os.fsync` was called when all of them had been written. [c17] And behind
#   the renaming the new name is: [c18] `os.fsync` of a descriptor of the **folder**;
# - [c19] what a killed save has left in the folder does not disturb the next one;
# - [c20] **a save that fails**, as the disk is full or the folder is missing, raises `OSError` in every rank. [c21] The old checkpoint stays, and
#   the folder has no other file than before;
# - [c22] **whatever else goes wrong in one rank**, as an object's `state_dict()` raises or the rank that writes runs out of memory, an
#   exception is raised in every rank, and none waits for ever. [c23] Checkpoint and folder stay as above;
# - [c24] `torch.load(path, weights_only=True)` reads the file;
# - [c25] `load_state` runs **no code** of the file's;
# - [c26] it raises `FileNotFoundError` where there is no file;
# - [c27] it raises `ValueError` where the file is cut off or is no checkpoint of `save_state`, where a pickle in it would run code, where
#   it is of another number of ranks, where its names are not those of `state`, and where **an entry is malformed**, as a
#   generator's state that the generator does not take. [c28] No object and no generator has changed then;
# - [c29] what an object's `load_state_dict` raises is passed on as it is. [c30] Some objects may have changed then, **and no generator has**.

# %% nbgrader={"grade": false, "grade_id": "save_state", "locked": false, "schema_version": 3, "solution": true, "task": false}
def save_state(path, state):
    """Save the objects of every rank and its generators in one file, which is replaced whole or not at all."""
    ### BEGIN SOLUTION
    own, problem = tried(lambda: of_this_rank(state))
    every = gathered((own, problem))
    if every is not None:
        problem = next((found for _, found in every if found), None)
        content = {"ranks": [own for own, _ in every]}
        problem = problem or tried(lambda: write_whole(path, content))[1]
    told = [problem]
    if dist.is_initialized():
        dist.broadcast_object_list(told)
    if told[0] is not None:
        number, words = told[0]
        raise OSError(number, words) if number else RuntimeError(words)


def tried(call):
    """What it returns, and None; or None, and what went wrong: the system's number of it, or 0, and words."""
    try:
        return call(), None
    except OSError as error:
        return None, (error.errno or 5, error.strerror or str(error))  # 5: input/output error
    except Exception as error:
        return None, (0, f"{type(error).__name__}: {error}"[:1000])


def of_this_rank(state):
    kind, keys, *numbers = np.random.get_state()
    return {
        "state": {name: part.state_dict() for name, part in state.items()},
        "random": random.getstate(),
        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), *numbers),
        "torch": torch.get_rng_state(),
    }


def gathered(own):
    """What each rank has, in the rank that writes; None in the others."""
    if not dist.is_initialized():
        return [own]
    every = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(own, every)
    return every


def write_whole(path, content):
    other, data = f"{path}.writing", io.BytesIO()
    torch.save(content, data)
    try:
        with open(other, "wb") as file:
            file.write(data.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(other, path)
    except Exception:
        if os.path.exists(other):
            os.remove(other)
        raise
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def load_state(path, state):
    """Give every rank its objects' states and its generators back."""
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    with open(path, "rb") as file:
        data = io.BytesIO(file.read())
    try:
        every = torch.load(data, weights_only=True)["ranks"]
        own, count = every[rank], len(every)
        objects, generators = dict(own["state"]), of_generators(own)
        random.Random().setstate(generators[0])
        np.random.RandomState().set_state(generators[1])
        torch.Generator().set_state(generators[2])
    except Exception as error:
        raise ValueError(f"{path} is no checkpoint: {error}") from error
    if count != world or set(objects) != set(state):
        raise ValueError(f"{path} is of {count} ranks and holds {sorted(objects)}")
    for name, part in state.items():
        part.load_state_dict(objects[name])
    random.setstate(generators[0])
    np.random.set_state(generators[1])
    torch.set_rng_state(generators[2])


def of_generators(own):
    kind, keys, *numbers = own["numpy"]
    return own["random"], (kind, keys.numpy().astype(np.uint32), *numbers), own["torch"]
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "save_state_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_save_state():
    """A run that goes on from a checkpoint, in one process and on two ranks; then saves that are killed."""
    import shutil

    def started():
        """Objects as a run begins with them."""
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        return {"model": model, "optimizer": optimizer, "schedule": schedule}

    def go_on(state, steps):
        """The weights' sum after so many steps, on inputs from all three generators."""
        for _ in range(steps):
            x = torch.randn(4, 3) + random.random() + torch.from_numpy(np.random.rand(4, 3)).float()
            state["optimizer"].zero_grad()
            state["model"](x).square().mean().backward()
            state["optimizer"].step()
            state["schedule"].step()
        return [p.detach().clone() for p in state["model"].parameters()]

    def seeded(number):
        random.seed(number), np.random.seed(number), torch.manual_seed(number)

    def there_and_back(path, number=1):
        """What comes of five more steps behind a save, and of five steps behind a load."""
        seeded(number)
        state = started()
        go_on(state, 3)
        save_state(path, state)
        due = go_on(state, 5)
        seeded(99)
        state = started()
        load_state(path, state)
        return due, go_on(state, 5)

    def alone(path):
        """In a process of its own, without a group: where a GPU is, a process that went backward forks no ranks that can."""
        return run_ranks(lambda rank, world: there_and_back(path), 1, card="off", backend=None).results[0]

    shutil.rmtree(_FOLDER), os.mkdir(_FOLDER)  # what an earlier try left is no fault of this one
    path = os.path.join(_FOLDER, "state.pt")
    due, found = alone(path)
    print("files:", os.listdir(_FOLDER), "of", os.path.getsize(path), "bytes")
    assert os.listdir(_FOLDER) == ["state.pt"], "one file is due in the folder"
    assert all(map(torch.equal, due, found)), "after a load the run goes on another way: something was not saved"
    torch.load(path, weights_only=True)

    in_ranks = run_ranks(lambda rank, world: there_and_back(path, rank), 2, card="off", backend="gloo").results
    for rank, (due, found) in enumerate(in_ranks):
        assert all(map(torch.equal, due, found)), f"rank {rank} goes on another way after a load"
    print("in one process and on two ranks the run goes on to the last bit")

    alone(path)
    before = torch.load(path, weights_only=True)
    for nbytes in (0, 500, 3000):
        killed = _stopped_within(nbytes, lambda: save_state(path, started()))
        print(f"killed at byte {nbytes}: {killed}; {os.listdir(_FOLDER)}")
        state = started()
        load_state(path, state)
    assert killed, "nothing was written"


_see_save_state()

# %% nbgrader={"grade": true, "grade_id": "save_state_hidden", "locked": true, "points": 11, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of save_state and load_state: continues 3, one rank 1, survives 2, on the disk 1, plain 1, full 1, told 1, refused 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("stability.save_state")
### END HIDDEN TESTS

# %% [markdown]
# ## E17.4 `spike_guard`
#
# A corrupted picture, a broken label, a flipped bit: now and then a batch's loss is far above the others. Leaving out such
# a step costs one small all-reduce in each, if all ranks leave it out together and the optimizer does not notice. The cell
# below measures how far a loss lies above its predecessors in two ways, before and after one spike is among them.

# %% nbgrader={"grade": false, "grade_id": "spike_guard_spread", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_spike_guard_spread():
    """How far a loss of 20 lies above others."""
    LOSSES = [2.1, 2.0, 2.2, 1.9, 2.0, 2.1, 1.8, 2.0]

    def spread(values):
        """1.4826 times the median distance from the median: of many normal values it is their standard deviation."""
        middle = statistics.median(values)
        return middle, 1.4826 * statistics.median(abs(value - middle) for value in values)

    for what, values in (("without a spike", LOSSES), ("with one of 50", [*LOSSES[1:], 50.0])):
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        middle, robust = spread(values)
        print(f"{what:16} 20 lies {(20 - mean) / deviation:6.1f} standard deviations above the mean,", end=" ")
        print(f"{(20 - middle) / robust:6.1f} spreads above the median")
    return LOSSES


_LOSSES = _show_spike_guard_spread()

# %% [markdown]
# Write `spike_guard(optimizer, window=16, threshold=6.0, patience=3, group=None)`. Every rank of a process group calls it, with
# an optimizer of its own over the same weights. `group` is that process group, and `None` the default one; its collectives
# take tensors on the host, as gloo's do:
#
# - [c1] it returns a function `step(loss)`. [c2] After each backward pass, when all ranks have the same averaged gradients, every rank calls
#   it with the **loss of its own batch**, a Python `float`, which may be NaN or infinite;
# - [c3] **one decision**: it is made on the mean of all ranks' losses, so that all ranks decide alike. [c4] For this there crosses in each
#   call, in the group, **one all-reduce** of one element, `float64`, which sums or averages, and nothing else;
# - [c5] **a step is made** unless the mean is a spike: [c6] `optimizer.step()` is called once, and `step` returns `True`;
# - [c7] **a spike is skipped**: [c8] `step` returns `False`, and **neither the weights nor the optimizer's state change**: [c9] no moment and no
#   count of steps;
# - [c10] after each call, skipped or not, no parameter of the optimizer has a gradient: [c11] `.grad` is `None`;
# - [c12] a mean that is NaN or infinite is a spike, at any time;
# - [c13] a finite mean x is a spike where x - m > `threshold` · s. [c14] Here m is the **median** of the last `window` means whose steps
#   were made, and s is 1.4826 times the median of their distances from m, but not less than 0.01 · |m|. [c15] The median of an
#   even number of values is the mean of the two in the middle. [c16] A mean far below m is no spike;
# - [c17] as long as fewer than `window` steps have been made, no finite mean is a spike;
# - [c18] **what was skipped does not count** among the last means: [c19] a spike does not hide the next one;
# - [c20] **it gives up**: where `patience` calls in a row would be skipped, the last of them raises `RuntimeError` in every rank, as the loss
#   will not come back by itself. [c21] Weights and state are as they were. [c22] A step that is made begins the count anew;
# - [c23] several such functions know nothing of each other;
# - [c24] the call of `spike_guard` raises `ValueError` for `window` or `patience` less than 1, and for `threshold` not greater than 0 or NaN.

# %% nbgrader={"grade": false, "grade_id": "spike_guard", "locked": false, "schema_version": 3, "solution": true, "task": false}
def spike_guard(optimizer, window=16, threshold=6.0, patience=3, group=None):
    """Returns a function that steps ``optimizer`` unless the ranks' mean loss is a spike; all ranks decide alike."""
    ### BEGIN SOLUTION
    if window < 1 or patience < 1 or not threshold > 0:
        raise ValueError(f"window {window}, threshold {threshold}, patience {patience}")
    made, skipped = deque(maxlen=window), 0

    def is_spike(mean):
        if not math.isfinite(mean):
            return True
        if len(made) < window:
            return False
        middle = statistics.median(made)
        distance = 1.4826 * statistics.median(abs(value - middle) for value in made)
        return mean - middle > threshold * max(distance, 0.01 * abs(middle))

    def step(loss):
        nonlocal skipped
        mean = torch.tensor([loss], dtype=torch.float64)
        dist.all_reduce(mean, group=group)
        mean = mean.item() / dist.get_world_size(group)
        skip = is_spike(mean)
        if skip:
            skipped += 1
        else:
            skipped = 0
            made.append(mean)
            optimizer.step()
        optimizer.zero_grad()
        if skipped == patience:
            raise RuntimeError(f"{patience} spikes in a row: the last mean loss is {mean}")
        return not skip

    return step
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "spike_guard_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_spike_guard():
    """Seventeen steps of two ranks."""
    # Rank 1 meets a spike in step 9 and NaN in step 11. From step 14 on its loss is out of reach.
    OF_RANKS = [_LOSSES + [2.0, 1.9, 2.1, 2.0, 1.8, 1.9, 2.0, 2.0, 2.0], _LOSSES + [2.1, 50.0, 2.0, math.nan, 1.9, 2.0, 60.0, 70.0, 80.0]]

    def guarded(rank, world):
        """What a rank's function answers, and whether the weight moved with it."""
        weight = nn.Parameter(torch.ones(3))
        adam = torch.optim.Adam([weight], lr=0.1)
        step, told = spike_guard(adam, window=8), []
        for loss in OF_RANKS[rank]:
            weight.grad = torch.ones(3)
            before = weight.detach().clone(), str(adam.state_dict())
            try:
                answer = step(loss)
            except RuntimeError as error:
                answer = f"gives up: {error}"
            told.append((answer, bool((weight != before[0]).any()), str(adam.state_dict()) != before[1], weight.grad is None))
        return told

    run = run_ranks(guarded, 2, card="off", backend="gloo")
    for number, (one, other) in enumerate(zip(*run.results)):
        print(f"step {number:2}  losses {OF_RANKS[0][number]:5.1f} {OF_RANKS[1][number]:5.1f}   {one[0]}   {other[0]}")
        assert one[0] == other[0], f"step {number}: the ranks decide differently, and their weights part"
        skipped = number in (9, 11, 14, 15, 16)
        for answer, moved, changed, dropped in (one, other):
            assert (answer is not True) == skipped, f"step {number} is {'a spike' if skipped else 'none'}, and the answer is {answer}"
            assert moved == (not skipped), f"step {number}: a step moves the weights, and a skip does not"
            assert changed == (not skipped), f"step {number}: the optimizer's state changes in a step, and not in a skip"
            assert dropped, f"step {number}: a gradient is left, to which the next batch's would be added"
    assert "gives up" in str(run.results[0][16][0]), "three spikes in a row are too many: RuntimeError is due"
    assert [entry.bytes for entry in run.journal] == [8] * 17, "in each call one all-reduce of one float64 is due"


_see_spike_guard()

# %% nbgrader={"grade": true, "grade_id": "spike_guard_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of spike_guard: decision 2, together 2, untouched 2, robust 1, gives up 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("stability.spike_guard")
### END HIDDEN TESTS
