"""Words and pictures to TinyVLA's token ids, and back."""

import base64
import io
import struct

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from gpulab.model.config import SIZES, Config
from gpulab.model.world import WORDS
from gpulab.serving.http.errors import Refused, shown

CONFIG: Config = SIZES["tiny"]
VOCABULARY = (*WORDS, *(f"<{number}>" for number in range(CONFIG.bins)))
"""Words, then the values of an action: ``<8>`` is no move."""
_ID = {word: number for number, word in enumerate(VOCABULARY)}
LARGEST_SIDE = 512
"""Pixels: no larger picture is decoded."""
MOST_SCANS = 16
"""Of a JPEG. Each is a pass over all pixels and may be a dozen bytes long."""


def ids_of(prompt: str | list[int]) -> tuple[int, ...]:
    """Words between spaces, or ids as they are. Raises Refused for what the vocabulary lacks, and for nothing at all."""
    ids = [_ID.get(word, word) for word in prompt.split()] if isinstance(prompt, str) else prompt
    for token in ids:
        if not isinstance(token, int) or not 0 <= token < len(VOCABULARY):
            known = " ".join(VOCABULARY)
            raise Refused(
                f"{shown(token)} is no token of this model, whose {len(VOCABULARY)} words are: {known}", "prompt"
            )
    if not ids:
        raise Refused("the prompt has no token", "prompt")
    return tuple(ids)


def word(token: int) -> str:
    return VOCABULARY[token]


def instruction_of(text: str) -> Tensor:
    """int64 (text_length,): the policy reads ``<bos>`` and a sentence of as many words as it was trained on."""
    ids = ids_of(text)
    ids = ids if ids[0] == _ID["<bos>"] else (_ID["<bos>"], *ids)
    if len(ids) != CONFIG.text_length:
        raise Refused(
            f"beside a picture the policy reads {CONFIG.text_length - 1} words, as 'move to the red block'", "messages"
        )
    return torch.tensor(ids)


def image_of(url: str) -> Tensor:
    """uint8 (64, 64, 3) of a data URL; a picture of another size is resized. Raises Refused for any other URL."""
    kind, _, data = url.partition(",")
    if not kind.startswith("data:image/") or not kind.endswith(";base64"):
        raise Refused("a picture comes as data:image/png;base64,... or a JPEG: this server fetches nothing", "messages")
    try:
        file = base64.b64decode(data, validate=True)
        if file.count(b"\xff\xda") > MOST_SCANS and file[:2] == b"\xff\xd8":
            raise Refused(f"the picture has more than {MOST_SCANS} scans", "messages")
        picture = Image.open(io.BytesIO(file), formats=("PNG", "JPEG"))
        if max(picture.size) > LARGEST_SIDE:
            raise Refused(
                f"the picture is {picture.size[0]} x {picture.size[1]}: {LARGEST_SIDE} a side at most", "messages"
            )
        side = (CONFIG.image, CONFIG.image)
        picture = picture.convert("RGB")
        return torch.from_numpy(np.array(picture if picture.size == side else picture.resize(side)))
    except Refused:
        raise
    except UnidentifiedImageError:
        raise Refused("the picture cannot be read: it is neither a PNG nor a JPEG", "messages") from None
    except (ValueError, OSError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise Refused(f"the picture cannot be read: {shown(str(error))}", "messages") from None
