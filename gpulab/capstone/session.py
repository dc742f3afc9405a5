"""One run of the job: a policy that is trained and then serves. Each line that can be wrong is a part."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from gpulab.capstone.elsewhere import Peers
from gpulab.capstone.registry import Code
from gpulab.model import Config, TinyVLA
from gpulab.model.world import WORDS, frames

CONFIG = Config(width=64, layers=1, heads=2, kv_heads=1, hidden=128, patch=32)
FRAMES, BATCH, HELD_OUT, REQUESTS = 16, 8, 8, 4
STEPS = 2
"""The first fills the allocator's cache; the second is measured."""
RATE, MOMENTUM, CLIP = 0.05, 0.9, 1.0


@cache
def data() -> tuple[Tensor, ...]:
    """Images, word ids and action tokens: those to train on, to judge by, and to answer."""
    image, text, bins = frames(FRAMES + HELD_OUT + REQUESTS, np.random.default_rng(22))
    return torch.from_numpy(image), torch.from_numpy(text), torch.from_numpy(bins + len(WORDS))


class Session:
    """The state of a run. ``code``: by part, what runs.

    losses: of each step, as logging keeps them. drawn: numbers of the frames that each step took. input_us: that the
    host waited for the loader. scaler: a ``GradScaler``, where the job scales its loss. formats: of the linear layers' outputs.
    """

    def __init__(self, code: Code) -> None:
        self.code, self.number = code, 0
        self.peers, self.scaler = Peers(), None
        self.losses: list = []
        self.drawn: list[list[int]] = []
        self.answers: list = []
        self.input_us = 0.0
        self.formats: list[torch.dtype] = []
        self.stale_bytes = 0
        self.scratch: dict[str, object] = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(22)
            self.policy = TinyVLA(CONFIG)
        self.policy.cuda()
        self("attention")
        self("blocks")
        self.optimizer = self("optimizer")

    def __call__(self, part: str, *given):
        """Run a part."""
        return self.code[part](self, *given)

    @property
    def parameters(self) -> list[nn.Parameter]:
        return list(self.policy.parameters())

    def step(self) -> None:
        """One training step."""
        self.input_us = self("loader")
        chosen = self("samples")
        self.drawn.append(chosen.tolist())
        batch = self("copies", [tensor[:FRAMES] for tensor in data()], chosen)
        self("gradients")
        self.stale_bytes = sum(p.grad.nbytes for p in self.parameters if p.grad is not None)
        with self.formats_noted(), self("precision"):
            loss = self.policy.loss(*batch)
        self("backward", loss)
        self("exchange")
        self("clipping")
        self("update")
        self("logging", loss)
        self("saving", False)
        self("housekeeping")
        self.number += 1

    def evaluate(self) -> float:
        """The loss of frames that no step trained on."""
        batch = [tensor[FRAMES : FRAMES + HELD_OUT].cuda() for tensor in data()]
        return float(self("evaluation", batch).detach())

    def serve(self) -> tuple[float, float]:
        """Answer every request; microseconds until the last has its first token, and from token to token after that."""
        image, text, _ = (tensor[FRAMES + HELD_OUT :].cuda() for tensor in data())
        begun, first, last = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        begun.record()
        between = 0.0
        with torch.no_grad():
            for batch in self("requests"):
                self.answers += self._answer(image[batch], text[batch], first)
                last.record()
                last.synchronize()
                between = max(between, first.elapsed_time(last))
        return 1000 * begun.elapsed_time(first), 1000 * between / (CONFIG.action_length - 1)

    def _answer(self, image: Tensor, text: Tensor, first: torch.cuda.Event) -> list:
        policy, told = self.policy, []
        with self("precision"):
            x = policy.embed(image, text)
            held = self("cache", len(x), x)
            for _ in range(CONFIG.action_length):
                mask = policy.mask(x.shape[1], x.device) if held is None else None
                logits = policy.lm_head(policy.decode(x, mask, held)[:, -1])
                token = logits[:, CONFIG.words :].argmax(-1, keepdim=True) + CONFIG.words
                if not told:
                    first.record()
                told.append(self("tokens", token))
                new = policy.embed_tokens(token)
                x = torch.cat((x, new), 1) if held is None else new
        self.scratch["cache"] = held
        return told

    @contextmanager
    def formats_noted(self) -> Iterator[None]:
        """Keep the number format of what every linear layer gives."""
        self.formats = []
        layers = [module for module in self.policy.modules() if isinstance(module, nn.Linear)]
        hooks = [layer.register_forward_hook(lambda _, __, out: self.formats.append(out.dtype)) for layer in layers]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
