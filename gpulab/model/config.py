"""How large a TinyVLA is: one object, from under a million parameters to seven billion."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """The shape of a policy. Lengths are in tokens, images in pixels."""

    width: int = 128
    """Of the residual stream."""
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    """Heads of keys and values; several query heads share one."""
    hidden: int = 384
    """Of the gated MLP."""
    words: int = 16
    """In the vocabulary; the action tokens follow them."""
    bins: int = 17
    """Values that one number of an action can take."""
    action_length: int = 2
    """Numbers in an action, each a token."""
    text_length: int = 6
    image: int = 64
    """Height and width."""
    patch: int = 16
    rope_base: float = 10_000.0
    eps: float = 1e-5

    def __post_init__(self) -> None:
        for whole, part in (("width", "heads"), ("heads", "kv_heads"), ("image", "patch")):
            if getattr(self, whole) % getattr(self, part):
                raise ValueError(f"{whole} is {getattr(self, whole)}: {part}, {getattr(self, part)}, has to divide it")
        if self.head_dim % 2:
            raise ValueError(f"a head is {self.head_dim} wide: rotary positions turn pairs, so it has to be even")

    @property
    def vocabulary(self) -> int:
        return self.words + self.bins

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2

    @property
    def prefix(self) -> int:
        """Tokens before the first action token."""
        return self.patches + self.text_length

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def parameters(self) -> int:
        """As many as the policy has."""
        attention = 2 * self.width * (self.heads + self.kv_heads) * self.head_dim
        layer = attention + 3 * self.width * self.hidden + 2 * self.width
        eyes = (3 * self.patch**2 + 1 + self.patches) * self.width
        return self.layers * layer + eyes + self.width + 2 * self.vocabulary * self.width


_ROBOT = dict(words=32_000 - 256, bins=256, action_length=7, text_length=32, image=224, patch=14)
SIZES = {
    "tiny": Config(),
    "350M": Config(width=1024, layers=24, heads=16, kv_heads=8, hidden=2816, **_ROBOT),
    "1B": Config(width=2048, layers=22, heads=32, kv_heads=4, hidden=5632, **_ROBOT),
    "7B": Config(width=4096, layers=32, heads=32, kv_heads=32, hidden=11_008, **_ROBOT),
}
"""The one that is trained here, and three that are only ever counted, on ``meta`` or on a ghost card."""
