"""What a rank's function returns, as it goes back to the process that started the ranks."""

import io
import pickle
from typing import Any

import torch

from gpulab.collectives.rank.memory import unseen
from gpulab.cuda.device import state, transfer
from gpulab.cuda.device.tensor import CudaTensor


class CannotReturn(TypeError):
    """A value that no process can send to another."""


class _Pickler(pickle.Pickler):
    """Device tensors go as host tensors of their own bytes: the card ends with the rank."""

    def reducer_override(self, value):
        if isinstance(value, CudaTensor):
            state.device_on().use([value])
            with unseen():
                return transfer.plain(value.detach()).clone().__reduce_ex__(self.proto)
        if isinstance(value, torch.Tensor) and value.is_leaf is False:
            return value.detach().__reduce_ex__(self.proto)
        return NotImplemented

    proto = pickle.HIGHEST_PROTOCOL


_PLAIN = b"\0"
"""Stands before bytes that go as they are; a pickle begins otherwise."""


def packed(value: Any) -> bytes:
    """Raises CannotReturn."""
    if type(value) is bytes:
        return _PLAIN + value
    data = io.BytesIO()
    try:
        _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception as error:
        raise CannotReturn(
            f"what the function returns cannot go to another process ({error}): return numbers, tensors, lists and dictionaries"
        ) from error
    return data.getvalue()


def unpacked(data: bytes | bytearray, plain: bool = False) -> Any:
    """``plain``: bytes alone are taken, None stands for all else, and no rank's code runs here."""
    if data[:1] == _PLAIN:
        return bytes(data[1:])
    return None if plain else pickle.loads(data)
