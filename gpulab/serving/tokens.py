"""How many tokens a multimodal request is: text, images and the sampled frames of a video."""

import math
from dataclasses import dataclass
from fractions import Fraction


def image_tokens(height: int, width: int, patch: int, merge: int = 1) -> int:
    """Of one image of ``height`` x ``width`` pixels: one for each square of ``merge`` x ``merge`` patches.

    A patch is ``patch`` x ``patch`` pixels. What is left at an edge is padded to a whole square.
    """
    side = patch * merge
    return math.ceil(Fraction(height, side)) * math.ceil(Fraction(width, side))


@dataclass(frozen=True)
class Contents:
    """What one request sends to the model.

    text: tokens. images: how many, each of ``height`` x ``width`` pixels, as frames are. patch: pixels of its side;
    merge: patches of the side of what becomes one token. frames_per_s: sampled of a video of ``seconds``.
    Raises ValueError for fewer than none, and for a side, a patch or a merge below 1.
    """

    text: int
    images: int = 0
    height: int = 224
    width: int = 224
    patch: int = 14
    merge: int = 1
    frames_per_s: float = 1
    seconds: float = 0

    def __post_init__(self) -> None:
        for name, least in (("text", 0), ("images", 0), ("frames_per_s", 0), ("seconds", 0)):
            self._at_least(name, least)
        for name in ("height", "width", "patch", "merge"):
            self._at_least(name, 1)

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ValueError(f"{name} is {getattr(self, name)}: at least {least}")

    @property
    def frames(self) -> int:
        """Sampled; a part of one is one."""
        return math.ceil(Fraction(self.frames_per_s) * Fraction(self.seconds))

    @property
    def tokens(self) -> dict[str, int]:
        """By ``text``, ``images`` and ``video``."""
        each = image_tokens(self.height, self.width, self.patch, self.merge)
        return {"text": self.text, "images": self.images * each, "video": self.frames * each}
