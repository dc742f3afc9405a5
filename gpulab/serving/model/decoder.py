"""TinyVLA's decoder as the engine runs it: the tokens of all requests in one batch, keys and values in blocks."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

import gpulab.cuda
from gpulab.model.checkpoint import load
from gpulab.model.policy import Block, TinyVLA, angles, rotate
from gpulab.serving.blocks.blocks import Blocks
from gpulab.serving.clocks.clock import Work
from gpulab.serving.model.attention import Attention, Span, one_by_one
from gpulab.serving.model.sampler import Sampler, greedy
from gpulab.serving.requests import Live


class Decoder:
    """Token ids in, token ids out. A prompt of ids is read as a text: every token sees those before it. A request that has an
    image, :func:`gpulab.serving.model.robot.ask`, is read as the policy was trained to: its prompt looks at all of itself.

    Norms, products and the MLP work on all new tokens of a step at once, whoever they belong to; only attention looks at
    requests one by one. That is Orca's selective batching (Yu et al., OSDI 2022). ``policy`` is used where its weights are
    and as they are; the cache, (layers, blocks, size, kv_heads, head_dim) twice, is made beside it, for ``blocks``.
    ``elapsed_us`` is the last step's time: between two events on a GPU or the virtual card, else by the host's clock.
    """

    def __init__(
        self, policy: TinyVLA, blocks: Blocks, attention: Attention = one_by_one, sampler: Sampler = greedy
    ) -> None:
        self.policy, self.blocks, self.attention, self.sampler = policy, blocks, attention, sampler
        like, config = policy.lm_head.weight, policy.config
        shape = (config.layers, blocks.total, blocks.size, config.kv_heads, config.head_dim)
        self.keys, self.values = (torch.zeros(shape, device=like.device, dtype=like.dtype) for _ in range(2))
        self.elapsed_us = 0.0
        self.modelled = like.device.type == "cuda" and gpulab.cuda.current() not in ("real", "off")

    @classmethod
    def tiny(cls, blocks: Blocks, device: str = "cpu", dtype: torch.dtype = torch.float32, **parts) -> "Decoder":
        """With the trained TinyVLA. Prompts are ids below its 33 words and bins. ``parts``: attention and sampler."""
        return cls(load(dtype=dtype).to(device), blocks, **parts)

    @torch.no_grad()
    def step(self, work: Sequence[Work]) -> list[int | None]:
        stop = _stopwatch(self.keys.device)
        found = self._tokens(work)
        self.elapsed_us = stop()
        return found

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        for source, target in copies:
            for cache in (self.keys, self.values):
                cache[:, target] = cache[:, source]

    def _tokens(self, work: Sequence[Work]) -> list[int | None]:
        x, spans, turn, places = self._gathered(work)
        for number, layer in enumerate(self.policy.layers):
            x = self._layer(number, layer, x, spans, turn, places)
        ends = [span for span, item in zip(spans, work, strict=True) if item.context + item.new == item.live.tokens]
        if not ends:
            return [None] * len(work)
        last = x[torch.tensor([span.first + span.new - 1 for span in ends], device=x.device)]
        lives = [item.live for item in work if item.context + item.new == item.live.tokens]
        told = dict(zip(lives, self.sampler(self.policy.lm_head(self.policy.norm(last)), lives).tolist(), strict=True))
        return [told.get(item.live) for item in work]

    def _gathered(self, work: Sequence[Work]) -> tuple[Tensor, list[Span], tuple[Tensor, Tensor], Tensor]:
        """Embeddings (tokens, width) of the new tokens, whose they are, their rotary angles, their places in the cache."""
        device, size, spans, first = self.keys.device, self.blocks.size, [], 0
        for live, new, context in work:
            table = torch.tensor(self.blocks.table(live), device=device, dtype=torch.int64)
            spans.append(Span(first, new, context, table, live.prompt_tokens if live.whole else 0))
            first += new
        x = torch.cat([self._embedded(*item) for item in work])
        at = [torch.arange(span.context, span.context + span.new, device=device) for span in spans]
        places = torch.cat([span.table[t // size] * size + t % size for span, t in zip(spans, at, strict=True)])
        turns = [angles(self.policy.config, span.context, span.new, like=self.keys) for span in spans]
        cos, sin = (torch.cat(parts)[:, None] for parts in zip(*turns, strict=True))
        return x, spans, (cos, sin), places

    def _embedded(self, live: Live, new: int, context: int) -> Tensor:
        """(new, width); a prompt with an image is new as a whole, or not at all."""
        ids = torch.tensor(live.ids[context : context + new], device=self.keys.device)
        if live.image is None or context:
            return self.policy.embed_tokens(ids)
        image, words = live.image.to(ids.device), ids[self.policy.config.patches : live.prompt_tokens]
        return torch.cat(
            (self.policy.embed(image[None], words[None])[0], self.policy.embed_tokens(ids[live.prompt_tokens :]))
        )

    def _layer(
        self, number: int, layer: Block, x: Tensor, spans: list[Span], turn: tuple[Tensor, Tensor], places: Tensor
    ) -> Tensor:
        own, y = layer.self_attn, layer.input_layernorm(x)
        queries, keys, values = (
            product(y).unflatten(-1, (-1, self.policy.config.head_dim))
            for product in (own.q_proj, own.k_proj, own.v_proj)
        )
        self.keys[number].flatten(0, 1)[places] = rotate(keys, *turn)
        self.values[number].flatten(0, 1)[places] = values
        y = self.attention(rotate(queries, *turn), self.keys[number], self.values[number], spans)
        x = x + own.o_proj(y.flatten(1))
        return x + layer.mlp(layer.post_attention_layernorm(x))


def _stopwatch(device: torch.device):
    """A function that answers the microseconds from now until it is called, the device's work included."""
    if device.type != "cuda":
        began = time.perf_counter()
        return lambda: max(1e-3, 1e6 * (time.perf_counter() - began))
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()

    def stop() -> float:
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)

    return stop
