"""Changes that are offered beside the repairs, and repair nothing: they do other work, or other work more slowly."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from gpulab.capstone import faults, parts
from gpulab.capstone.registry import decoy
from gpulab.capstone.session import BATCH, Session


@decoy("accumulate over two batches", "the optimizer steps after every second batch", "update")
def every_second(session: Session) -> None:
    if session.number % 2:
        parts.update(session)


@decoy("no clipping", "gradients go to the optimizer as they are", "clipping")
def unclipped(session: Session) -> None:
    pass


@decoy("half the batch", "each step takes half as many frames", "samples")
def half(session: Session) -> Tensor:
    return parts.samples(session)[: BATCH // 2]


@decoy("scale the loss", "a GradScaler around the backward pass", "backward")
def scaled(session: Session, loss: Tensor) -> None:
    faults.scaled(session, loss)


@decoy("fp16 autocast", "products run in fp16", "precision")
def fp16(session: Session) -> AbstractContextManager:
    return torch.autocast("cuda", torch.float16)


@decoy(
    "shard the model",
    "FSDP: weights are gathered for the forward pass and again for the backward pass, gradients scattered",
    "exchange",
)
def sharded(session: Session) -> None:
    session.peers.collective("all_gather", session.parameters)
    session.peers.collective("all_gather", session.parameters)
    session.peers.collective("reduce_scatter", [p.grad for p in session.parameters])


@decoy("checkpoint every block", "activations are computed again in the backward pass", "blocks")
def checkpointed(session: Session) -> None:
    faults.recomputed(session)


@decoy("empty the cache", "torch.cuda.empty_cache() after each step", "housekeeping")
def emptied(session: Session) -> None:
    torch.cuda.empty_cache()
