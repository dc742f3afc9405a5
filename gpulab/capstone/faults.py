"""What goes wrong in the parts, each as a colleague would write it."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gpulab.capstone import parts
from gpulab.capstone.elsewhere import wait_for_batch
from gpulab.capstone.registry import fault
from gpulab.capstone.session import BATCH, CLIP, CONFIG, MOMENTUM, RATE, REQUESTS, Session
from gpulab.model import Cache
from gpulab.model.policy import Attention, rotate

FEEDING, TRANSFERS, STREAMS = "one_gpu/feeding", "device/transfers", "device/streams"
PRECISION, TRADING, STABILITY = "one_gpu/precision", "one_gpu/trading", "many_gpus/stability"


@fault(
    "the first batch again",
    "samples",
    "feeding",
    "many_gpus/data_parallel",
    ("repeated_samples",),
    "next(iter(loader)) begins a new pass at every step, with the seed of the first",
    alters_loss=True,
)
def first_batch(session: Session) -> Tensor:
    return next(iter(parts.order(epoch=0).split(BATCH)))


@fault(
    "no workers",
    "loader",
    "feeding",
    FEEDING,
    ("input_us", "step_us"),
    "num_workers=0: the loop reads and decodes each batch itself",
)
def no_workers(session: Session) -> float:
    return wait_for_batch(session.number + 8, parts.IN_THE_LOOP)


@fault(
    "pageable batches",
    "copies",
    "feeding",
    TRANSFERS,
    ("pageable_copies",),
    "batches are copied from pageable memory, and the host waits",
)
def pageable(session: Session, frames: list[Tensor], chosen: Tensor) -> list[Tensor]:
    return [tensor[chosen].cuda(non_blocking=True) for tensor in frames]


@fault(
    "pinned in the loop",
    "copies",
    "feeding",
    TRANSFERS,
    ("late_us", "step_us"),
    "pin_memory() page-locks new memory for every batch",
)
def pinned_in_the_loop(session: Session, frames: list[Tensor], chosen: Tensor) -> list[Tensor]:
    session.scratch["pinned"] = [tensor[chosen].pin_memory() for tensor in frames]
    return [tensor.cuda(non_blocking=True) for tensor in session.scratch["pinned"]]


@fault(
    "a stream that nobody waits for",
    "copies",
    "feeding",
    STREAMS,
    ("races",),
    "batches are copied in a stream of their own, and no wait_stream follows",
)
def unordered(session: Session, frames: list[Tensor], chosen: Tensor) -> list[Tensor]:
    beside = session.scratch.setdefault("stream", torch.cuda.Stream())
    with torch.cuda.stream(beside):
        return parts.copies(session, frames, chosen)


@fault(
    "float32 throughout",
    "precision",
    "training",
    PRECISION,
    ("other_format_layers",),
    "autocast was taken out to look for a NaN, and not put back",
)
def float32(session: Session) -> AbstractContextManager:
    return nullcontext()


class WrittenOut(Attention):
    """Attention as the formula has it."""

    def forward(self, x, turn, mask, cache):
        queries, keys = rotate(self._heads(self.q_proj(x)), *turn), rotate(self._heads(self.k_proj(x)), *turn)
        values = self._heads(self.v_proj(x))
        if cache is not None:
            keys, values = cache.append(self.layer, keys, values)
        shared = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(shared, 1), values.repeat_interleave(shared, 1)
        scores = queries @ keys.transpose(-2, -1) / self.head_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.o_proj((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


@fault(
    "scores written out",
    "attention",
    "training",
    "device/kernels",
    ("softmaxes", "launches", "step_us"),
    "attention writes the S x S scores to memory, and their softmax",
)
def written_out(session: Session) -> None:
    for layer in session.policy.layers:
        plain, layer.self_attn = layer.self_attn, WrittenOut(CONFIG, layer.self_attn.layer).cuda()
        layer.self_attn.load_state_dict(plain.state_dict())


class Recomputed(nn.Module):
    """A block that is computed again in the backward pass."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, *given):
        return checkpoint(self.block, *given, use_reentrant=False) if torch.is_grad_enabled() else self.block(*given)


@fault(
    "every block recomputed",
    "blocks",
    "training",
    TRADING,
    ("flops", "launches", "step_us"),
    "activation checkpointing on every block, where memory is not short",
)
def recomputed(session: Session) -> None:
    session.policy.layers = nn.ModuleList(Recomputed(layer) for layer in session.policy.layers)


@fault(
    "gradients kept",
    "gradients",
    "training",
    "tensors/autograd",
    ("stale_bytes",),
    "zero_grad() is gone: each step adds to the sum of all before",
    alters_loss=True,
)
def kept(session: Session) -> None:
    pass


@fault(
    "bf16 with a loss scale",
    "backward",
    "training",
    PRECISION,
    ("unscalings", "launches", "step_us"),
    "fp16's GradScaler stayed when the job moved to bf16",
)
def scaled(session: Session, loss: Tensor) -> None:
    session.scaler = session.scaler or torch.amp.GradScaler("cuda")
    session.scaler.scale(loss).backward()


@fault(
    "every gradient on its own",
    "exchange",
    "training",
    "many_gpus/data_parallel",
    ("collectives", "step_us"),
    "each parameter's gradient is all-reduced by itself",
)
def each_alone(session: Session) -> None:
    for parameter in session.parameters:
        session.peers.collective("all_reduce", [parameter.grad])


@fault(
    "clipped tensor by tensor",
    "clipping",
    "training",
    STABILITY,
    ("reads", "waits", "step_us"),
    "each gradient is clipped by its own norm, which the host reads",
    alters_loss=True,
)
def each_clipped(session: Session) -> None:
    for parameter in session.parameters:
        if (norm := parameter.grad.norm().item()) > CLIP / 10:
            parameter.grad.mul_(CLIP / 10 / norm)


@fault(
    "one parameter at a time",
    "optimizer",
    "training",
    "device/kernels",
    ("updates", "launches", "step_us"),
    "the optimizer loops over parameters, three kernels for each",
)
def one_at_a_time(session: Session) -> torch.optim.Optimizer:
    return torch.optim.SGD(session.parameters, RATE, MOMENTUM, foreach=False)


@fault(
    "a loss read in each step",
    "logging",
    "keeping",
    STREAMS,
    ("reads", "waits"),
    "loss.item() in each step: the host waits for the card, and the card then for the host",
)
def read_each(session: Session, loss: Tensor) -> None:
    session.losses.append(loss.item())


@fault(
    "outputs kept for a histogram",
    "logging",
    "keeping",
    TRADING,
    ("growth_bytes",),
    "a hook keeps what every linear layer gives, of every step",
)
def outputs_kept(session: Session, loss: Tensor) -> None:
    parts.logging(session, loss)
    if "kept" not in session.scratch:
        session.scratch["kept"] = kept = []
        for layer in session.policy.modules():
            if isinstance(layer, nn.Linear):
                layer.register_forward_hook(lambda _, __, given: kept.append(given))


@fault(
    "a cache emptied in each step",
    "housekeeping",
    "keeping",
    TRADING,
    ("synchronizes", "waits"),
    "torch.cuda.empty_cache() after each step, against an error of last year",
)
def emptied(session: Session) -> None:
    torch.cuda.empty_cache()


@fault(
    "a synchronize left behind",
    "housekeeping",
    "keeping",
    STREAMS,
    ("synchronizes", "waits"),
    "torch.cuda.synchronize() of a measurement was never taken out",
)
def synchronized(session: Session) -> None:
    torch.cuda.synchronize()


@fault(
    "saved in each step",
    "saving",
    "keeping",
    STABILITY,
    ("to_host_bytes", "waits", "step_us"),
    "all weights are copied to the host in each step, and the loop waits",
)
def each_saved(session: Session, over: bool) -> None:
    parts.saving(session, over=True)


@fault(
    "evaluated with a graph",
    "evaluation",
    "keeping",
    "tensors/autograd",
    ("evaluation_bytes",),
    "no no_grad around the evaluation: all activations are kept for a backward pass that never comes",
)
def with_graph(session: Session, batch: list[Tensor]) -> Tensor:
    with session("precision"):
        return session.policy.loss(*batch)


class Concatenated(Cache):
    """A cache that is copied to a new place for every token."""

    def __init__(self) -> None:
        self.length, self.kept = 0, {}

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if layer in self.kept:
            keys, values = (torch.cat(pair, 2) for pair in zip(self.kept[layer], (keys, values), strict=True))
        self.kept[layer] = keys, values
        return keys, values


@fault(
    "a cache that is concatenated",
    "cache",
    "serving",
    "serving/inference",
    ("concatenated_bytes",),
    "torch.cat copies all keys and values for each new token",
)
def concatenated(session: Session, batch: int, like: Tensor) -> Cache:
    return Concatenated()


@fault(
    "the prefix computed again",
    "cache",
    "serving",
    "serving/inference",
    ("served_flops", "between_tokens_us"),
    "no cache: each token reads the whole prompt again",
)
def no_cache(session: Session, batch: int, like: Tensor) -> None:
    return None


@fault(
    "requests one by one",
    "requests",
    "serving",
    "serving/engines",
    ("served_launches", "first_token_us"),
    "each request waits until the one before is answered",
)
def one_by_one(session: Session) -> list[slice]:
    return [slice(number, number + 1) for number in range(REQUESTS)]


@fault(
    "a token read at a time",
    "tokens",
    "serving",
    "serving/inference",
    ("served_waits", "between_tokens_us"),
    "the host reads every token before it launches the next",
)
def read_tokens(session: Session, token: Tensor) -> list[list[int]]:
    return token.tolist()
