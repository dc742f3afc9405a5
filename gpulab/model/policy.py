"""The policy: a Llama-shaped decoder that reads image patches, then words, then action tokens.

B is the batch, T the tokens. Parameters carry the names of Hugging Face's ``LlamaForCausalLM`` without
``model.``, so that one can be loaded into the other.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy, silu

from gpulab.model.config import SIZES, Config

CAMERA_MEAN, CAMERA_SPREAD = 220.0, 40.0
"""Of the camera's pixels, which are mostly background."""


class RMSNorm(nn.Module):
    """x divided by its root mean square over the last dimension, in float32 whatever x is, times a learned scale."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def angles(config: Config, start: int, tokens: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine, each (tokens, head_dim), of the rotary positions from ``start`` on, as ``like`` is."""
    pair = torch.arange(0, config.head_dim, 2, device=like.device, dtype=torch.float32)
    place = torch.arange(start, start + tokens, device=like.device, dtype=torch.float32)
    angle = place[:, None] * config.rope_base ** (-pair / config.head_dim)
    angle = torch.cat((angle, angle), -1)
    return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position: the pairs (i, i + half) of every head, turned by their angle."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Cache:
    """Keys and values of the tokens read so far, in buffers (layers, B, kv_heads, length, head_dim)."""

    def __init__(self, config: Config, batch: int, length: int, like: Tensor) -> None:
        shape = (config.layers, batch, config.kv_heads, length, config.head_dim)
        self.keys = torch.zeros(shape, device=like.device, dtype=like.dtype)
        self.values = torch.zeros(shape, device=like.device, dtype=like.dtype)
        self.length = 0

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, the new ones last. ``length`` grows once all layers have done so."""
        end = self.length + keys.shape[2]
        self.keys[layer, :, :, self.length : end] = keys
        self.values[layer, :, :, self.length : end] = values
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]


class Attention(nn.Module):
    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.head_dim, self.layer = config.head_dim, layer
        self.q_proj = nn.Linear(config.width, config.heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(config.width, config.kv_heads * config.head_dim, bias=False)
        self.v_proj = nn.Linear(config.width, config.kv_heads * config.head_dim, bias=False)
        self.o_proj = nn.Linear(config.heads * config.head_dim, config.width, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: Cache | None) -> Tensor:
        queries, keys = rotate(self._heads(self.q_proj(x)), *turn), rotate(self._heads(self.k_proj(x)), *turn)
        values = self._heads(self.v_proj(x))
        if cache is not None:
            keys, values = cache.append(self.layer, keys, values)
        y = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))

    def _heads(self, y: Tensor) -> Tensor:
        """(B, T, heads * head_dim) as (B, heads, T, head_dim)."""
        return y.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class MLP(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.up_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.down_proj = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.width, config.eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.width, config.eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: Cache | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turn, mask, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class TinyVLA(nn.Module):
    """Camera images uint8 (B, image, image, 3), word ids int64 (B, text_length), action tokens int64 (B, action_length)."""

    def __init__(self, config: Config = SIZES["tiny"]) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = nn.Conv2d(3, config.width, config.patch, stride=config.patch)
        self.patch_place = nn.Parameter(torch.zeros(config.patches, config.width))
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = RMSNorm(config.width, config.eps)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(self._begin)
        nn.init.normal_(self.patch_place, std=0.5)

    def _begin(self, module: nn.Module) -> None:
        """Draw weights with a spread of 1/sqrt(inputs), less where a layer writes to the residual stream."""
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.5)
        elif isinstance(module, Block):
            for last in (module.self_attn.o_proj, module.mlp.down_proj):
                nn.init.normal_(last.weight, std=(2 * self.config.layers * last.in_features) ** -0.5)

    def forward(self, image: Tensor, text: Tensor, actions: Tensor) -> Tensor:
        """Logits (B, action_length, vocabulary) of the action tokens, all at once, each from those before it."""
        x = torch.cat((self.embed(image, text), self.embed_tokens(actions[:, :-1])), 1)
        x = self.decode(x, self.mask(x.shape[1], x.device))
        return self.lm_head(x[:, -self.config.action_length :])

    def loss(self, image: Tensor, text: Tensor, actions: Tensor) -> Tensor:
        """Cross-entropy of the action tokens, in float32."""
        return cross_entropy(self(image, text, actions).flatten(0, 1).float(), actions.flatten())

    @torch.no_grad()
    def generate(self, image: Tensor, text: Tensor, use_cache: bool = True) -> Tensor:
        """The likeliest action tokens (B, action_length), one after the other."""
        x, told = self.embed(image, text), []
        cache = (
            Cache(self.config, len(x), self.config.prefix + self.config.action_length, like=x) if use_cache else None
        )
        for _ in range(self.config.action_length):
            # With a cache no mask is needed: the prefix is visible to itself, then one token comes at a time.
            mask = None if use_cache else self.mask(x.shape[1], x.device)
            logits = self.lm_head(self.decode(x, mask, cache)[:, -1])
            told.append(logits[:, self.config.words :].argmax(-1, keepdim=True) + self.config.words)
            new = self.embed_tokens(told[-1])
            x = new if use_cache else torch.cat((x, new), 1)
        return torch.cat(told, 1)

    def embed(self, image: Tensor, text: Tensor) -> Tensor:
        """The prefix (B, patches + text_length, width): every patch of the image, then every word."""
        pixels = (image.permute(0, 3, 1, 2).to(self.patch_place.dtype) - CAMERA_MEAN) / CAMERA_SPREAD
        patches = self.patch_embed(pixels).flatten(2).transpose(1, 2) + self.patch_place
        return torch.cat((patches, self.embed_tokens(text)), 1)

    def mask(self, tokens: int, device: torch.device) -> Tensor:
        """(tokens, tokens), True where a row may look: the prefix at all of itself, an action token at what came before."""
        see = torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()
        see[: self.config.prefix, : self.config.prefix] = True
        return see

    def decode(self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Embeddings (B, T, width) to hidden states; positions go on from what the cache holds."""
        turn = angles(self.config, cache.length if cache else 0, x.shape[1], like=x)
        tokens = x.shape[1]
        for layer in self.layers:
            x = layer(x, turn, mask, cache)
        if cache is not None:
            cache.length += tokens
        return self.norm(x)
