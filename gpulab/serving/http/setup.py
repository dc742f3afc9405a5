"""What a server is started with, and the engine that this makes."""

from dataclasses import dataclass, field
from functools import cached_property

import torch

from gpulab.serving.blocks.blocks import blocks_for
from gpulab.serving.blocks.paged import Paged
from gpulab.serving.engine import Engine
from gpulab.serving.http.plugin import scheduler
from gpulab.serving.model.decoder import Decoder
from gpulab.serving.model.robot import Actions
from gpulab.serving.plan import Budget

REMEMBERED = 256
"""Steps and ended requests that the engine keeps."""


@dataclass(frozen=True)
class Setup:
    """scheduler: as of :func:`gpulab.serving.http.plugin.scheduler`. blocks, size: of the KV cache, size in tokens. context:
    tokens of prompt and answer at most. budget: of a step. queue: requests that may wait beside those that run. stalled_s:
    seconds after which an engine that is still in the same step counts as dead."""

    scheduler: str = "chunked"
    device: str = "cpu"
    blocks: int = 2048
    size: int = 16
    context: int = 256
    budget: Budget = field(default_factory=lambda: Budget(512, 64))
    queue: int = 192
    stalled_s: float = 30.0

    def __post_init__(self) -> None:
        if min(self.blocks, self.size, self.context) < 1 or self.queue < 0:
            raise ValueError(f"blocks, their size, the context and the queue are counted from 1, 1, 1 and 0 on: {self}")
        if blocks_for(self.context, self.size) > self.blocks:
            raise ValueError(f"{self.blocks} blocks of {self.size} tokens hold less than one context of {self.context}")

    @property
    def most(self) -> int:
        """Requests in the server at once, running and waiting."""
        return self.budget.requests + self.queue

    @cached_property
    def _scheduler(self):
        return scheduler(self.scheduler)

    def engine(self, ended=None) -> Engine:
        blocks = Paged(self.blocks, self.size)
        model = Decoder.tiny(blocks, self.device, sampler=_sample)
        return Engine(self._scheduler(), blocks, model=model, budget=self.budget, keep=REMEMBERED, ended=ended)


def _sample(logits: torch.Tensor, lives) -> torch.Tensor:
    """The likeliest token; for those who look at a picture, the likeliest of an action's."""
    seeing = torch.tensor([live.image is not None for live in lives], device=logits.device)
    return torch.where(seeing, Actions()(logits, lives), logits.argmax(-1))
