"""TinyVLA's own requests: a camera image and an instruction go in, the tokens of an action come out."""

from collections.abc import Sequence

from torch import Tensor

from gpulab.model.config import SIZES, Config
from gpulab.serving.requests import Live, Request

PATCH = -1
"""Stands for a patch of the image among the prompt's ids."""


def ask(name: str, arrival_us: float, image: Tensor, text: Tensor, config: Config = SIZES["tiny"], **others) -> Request:
    """A request for one action. image: uint8 (image, image, 3). text: int64 (text_length,). ``others``: fields of Request.

    Patches and words look at each other, so the prompt is computed in one step (``Request.whole``).
    """
    prompt = (*[PATCH] * config.patches, *text.tolist())
    return Request(name, arrival_us, prompt, config.action_length, whole=True, image=image, **others)


class Actions:
    """A sampler: the likeliest of the action tokens, which follow ``words`` words in the vocabulary."""

    def __init__(self, words: int = SIZES["tiny"].words) -> None:
        self.words = words

    def __call__(self, logits: Tensor, lives: Sequence[Live]) -> Tensor:
        return logits[:, self.words :].argmax(-1) + self.words
