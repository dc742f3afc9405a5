"""The parts of the job, as they should be. Each is called with the session first."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from gpulab.capstone.elsewhere import wait_for_batch
from gpulab.capstone.registry import right
from gpulab.capstone.session import BATCH, CLIP, CONFIG, FRAMES, MOMENTUM, RATE, REQUESTS, Session
from gpulab.feeding import Loader
from gpulab.model import Cache

READ_AHEAD, IN_THE_LOOP = Loader(workers=4), Loader(workers=0)


def order(epoch: int) -> Tensor:
    """The frames of an epoch, shuffled by its number."""
    return torch.randperm(FRAMES, generator=torch.Generator().manual_seed(epoch))


@right("next batch of the epoch", "the sampler goes on where it stood, and shuffles anew in each epoch")
def samples(session: Session) -> Tensor:
    epoch, place = divmod(session.number * BATCH, FRAMES)
    return order(epoch)[place : place + BATCH]


@right("workers read ahead", "four workers keep batches ready before the loop asks")
def loader(session: Session) -> float:
    return wait_for_batch(session.number + 8, READ_AHEAD)


@right(
    "pinned buffers",
    "batches are gathered into page-locked buffers made once, and copied without a wait in the stream that reads them",
)
def copies(session: Session, frames: list[Tensor], chosen: Tensor) -> list[Tensor]:
    if "buffers" not in session.scratch:
        session.scratch["buffers"] = [torch.empty(BATCH, *x.shape[1:], dtype=x.dtype, pin_memory=True) for x in frames]
        session.scratch["copied"] = torch.cuda.Event()
    buffers, copied = session.scratch["buffers"], session.scratch["copied"]
    copied.synchronize()
    for tensor, buffer in zip(frames, buffers, strict=True):
        torch.index_select(tensor, 0, chosen, out=buffer[: len(chosen)])
    batch = [buffer[: len(chosen)].cuda(non_blocking=True) for buffer in buffers]
    copied.record()
    return batch


@right("clear the gradients", "gradients are dropped before each step's forward pass")
def gradients(session: Session) -> None:
    session.optimizer.zero_grad()


@right(
    "bf16 autocast", "products run in bf16 as the job's specification asks, with weights in float32 and no loss scale"
)
def precision(session: Session) -> AbstractContextManager:
    return torch.autocast("cuda", torch.bfloat16)


@right("fused attention", "scores stay in the multiprocessor: scaled_dot_product_attention")
def attention(session: Session) -> None:
    pass


@right("keep the activations", "blocks keep what their backward pass reads: it fits")
def blocks(session: Session) -> None:
    pass


@right("plain backward pass", "the loss is not scaled: bf16 has float32's range")
def backward(session: Session, loss: Tensor) -> None:
    loss.backward()


@right("one all-reduce", "all gradients cross in one collective")
def exchange(session: Session) -> None:
    session.peers.collective("all_reduce", [p.grad for p in session.parameters])


@right("clip by one norm", "the norm of all gradients together is clipped, after they are unscaled")
def clipping(session: Session) -> None:
    if session.scaler is not None:
        session.scaler.unscale_(session.optimizer)
    torch.nn.utils.clip_grad_norm_(session.parameters, CLIP)


@right("fused optimizer", "one kernel updates all parameters")
def optimizer(session: Session) -> torch.optim.Optimizer:
    return torch.optim.SGD(session.parameters, RATE, MOMENTUM, fused=True)


@right("step every batch", "each batch is followed by its update")
def update(session: Session) -> None:
    if session.scaler is None:
        session.optimizer.step()
    else:
        session.scaler.step(session.optimizer)
        session.scaler.update()


@right("losses stay on the card", "the loss is kept detached, and read when training is over")
def logging(session: Session, loss: Tensor) -> None:
    session.losses.append(loss.detach())


@right("leave the allocator alone", "nothing is emptied and nothing is waited for between steps")
def housekeeping(session: Session) -> None:
    pass


@right("save at the end", "the weights are copied to the host once, when training is over")
def saving(session: Session, over: bool) -> None:
    if over:
        session.scratch["saved"] = {name: tensor.cpu() for name, tensor in session.policy.state_dict().items()}


@right("evaluate without a graph", "no_grad around the evaluation")
def evaluation(session: Session, batch: list[Tensor]) -> Tensor:
    with torch.no_grad(), session("precision"):
        return session.policy.loss(*batch)


@right("cache in buffers", "keys and values are written into buffers that are as long as the answer will be")
def cache(session: Session, batch: int, like: Tensor) -> Cache | None:
    return Cache(CONFIG, batch, CONFIG.prefix + CONFIG.action_length, like)


@right("one batch of requests", "the requests that wait are answered together")
def requests(session: Session) -> list[slice]:
    return [slice(0, REQUESTS)]


@right("read tokens at the end", "tokens stay on the card until the answer is whole")
def tokens(session: Session, token: Tensor) -> Tensor:
    return token
