"""How the bytes of a rank's groups travel: by the broker, by gloo itself, by NCCL itself."""

import os
from contextlib import ExitStack

import torch
import torch.distributed as dist

import gpulab.cuda
from gpulab.collectives.rank import torch_side
from gpulab.collectives.rank.store import BrokerStore, meet_through
from gpulab.cuda.device.state import number_the_card

TRANSPORTS = ("broker", "gloo", "nccl")


def enter(stack: ExitStack, task, rank: int) -> None:
    """A card, a way to the peers, and the default process group if ``task`` says so."""
    _card(stack, task.card, rank, task.world_size)
    store = _store(task)
    meet_through(store, rank, task.world_size)
    if task.transport == "broker":
        torch_side.install()
    elif task.transport == "nccl":
        torch.cuda.set_device(rank)
    if task.backend is not None:
        backend = "gloo" if task.transport == "gloo" else task.backend
        dist.init_process_group(backend, store=store, rank=rank, world_size=task.world_size)


def _card(stack: ExitStack, card: str, rank: int, world_size: int) -> None:
    """A new one: what was on belongs to the parent. It is number ``rank`` of as many as there are ranks."""
    gpulab.cuda.use("off", quiet=True)
    number_the_card(rank, world_size)
    if card != "off":
        stack.enter_context(gpulab.cuda.use(card, quiet=True))


def _store(task) -> dist.Store:
    if task.transport == "broker":
        return BrokerStore()
    return dist.FileStore(os.path.join(task.folder, "store"), task.world_size)
