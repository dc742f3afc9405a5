"""torch.distributed.checkpoint among real processes: sharded state is saved by two ranks, loaded by others, and a rank is killed in a save."""

import os
import signal

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from gpulab.collectives import RankError, run_ranks


def sharded(world, seed):
    """A model whose parameters are dealt out over all ranks, and Adam after a step."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    step(model, optimizer)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.linspace(-1, 1, 24).view(4, 6)).square().mean().backward()
    optimizer.step()


def everything(model, optimizer):
    """Weights and moments, whole, by name."""
    weights, moments = get_state_dict(model, optimizer)
    found = {name: whole(value) for name, value in weights.items()}
    for name, state in moments["state"].items():
        found |= {f"{name}.{key}": whole(value) for key, value in state.items()}
    return found


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else torch.as_tensor(value)


def save(rank, world, folder, seed=1):
    model, optimizer = sharded(world, seed)
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    return everything(model, optimizer)


def load(rank, world, folder):
    model, optimizer = sharded(world, seed=2)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return everything(model, optimizer)


def played(fn, world, *args, **named):
    return run_ranks(fn, world, args=args, card="off", backend="gloo", timeout_s=60, **named)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def saved_by_two(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("saved") / "checkpoint")
    return folder, played(save, 2, folder).results


def test_two_ranks_write_a_file_each_and_what_is_where(saved_by_two):
    folder, _ = saved_by_two
    assert sorted(os.listdir(folder)) == [".metadata", "__0_0.distcp", "__1_0.distcp"]


@pytest.mark.parametrize("world", [1, 2, 4])
def test_what_two_ranks_saved_is_loaded_by_any_number(saved_by_two, world):
    folder, saved = saved_by_two
    assert all(same(loaded, saved[0]) for loaded in played(load, world, folder).results)


def killed_before_the_metadata(rank, world, folder):
    """Rank 1 is gone when its part is written; the coordinator never hears of it."""
    if rank == 1:
        kill = lambda *args, **named: os.kill(os.getpid(), signal.SIGKILL)
        dcp.FileSystemWriter.write_data = kill
    return save(rank, world, folder)


def test_a_rank_killed_in_a_save_leaves_nothing_that_is_taken_for_a_checkpoint(tmp_path):
    folder = str(tmp_path / "checkpoint")
    with pytest.raises(RankError):
        played(killed_before_the_metadata, 2, folder)
    assert not os.path.exists(os.path.join(folder, ".metadata"))
    assert played(load, 1, folder, check=False).error is not None


def into_the_same_folder(rank, world, folder, full=False, overwrite=True):
    """Another run; with ``full``, rank 1 has no room left."""
    if full and rank == 1:

        def write_data(*args, **named):
            raise OSError("no space left on device")

        dcp.FileSystemWriter.write_data = write_data
    model, optimizer = sharded(world, seed=5)
    weights, moments = get_state_dict(model, optimizer)
    writer = dcp.FileSystemWriter(folder, overwrite=overwrite)
    dcp.save({"model": weights, "optimizer": moments}, storage_writer=writer)


@pytest.mark.filterwarnings("ignore:Detected an existing checkpoint")
def test_a_save_into_the_same_folder_that_fails_leaves_a_mixture_which_loads(tmp_path):
    folder = str(tmp_path / "checkpoint")
    (old, *_) = played(save, 2, folder).results
    assert played(into_the_same_folder, 2, folder, True, check=False).error is not None
    (mixed, *_) = played(load, 2, folder).results
    weight = "0.weight"
    assert torch.equal(mixed[weight][5:], old[weight][5:]) and not torch.equal(mixed[weight][:5], old[weight][:5])


def test_a_save_that_may_not_overwrite_leaves_the_checkpoint_in_its_folder_alone(tmp_path):
    folder = str(tmp_path / "checkpoint")
    (old, *_) = played(save, 2, folder).results
    assert played(into_the_same_folder, 2, folder, False, False, check=False).error is not None
    assert same(played(load, 2, folder).results[0], old)


def test_a_rank_killed_in_a_save_into_a_new_folder_leaves_the_checkpoint_before_it(saved_by_two, tmp_path):
    folder, saved = saved_by_two
    played(killed_before_the_metadata, 2, str(tmp_path / "next"), check=False)
    assert same(played(load, 1, folder).results[0], saved[0])
