"""Operations on ghost tensors: PyTorch's shape functions, on ordinary meta tensors.

Many of those functions are written in Python and ask their arguments for the device, so they
must not meet a tensor that says it is on the card.
"""

import torch
import torch.utils._device as device_context
from torch.utils._pytree import tree_map_only

from gpulab.cuda.device import transfer

Tensor = torch.Tensor


def shapes_of(cls, func, args, kwargs):
    """What ``func`` returns, without values; an argument written in place comes back itself."""
    lent: list[tuple[Tensor, Tensor]] = []

    def lend(tensor: Tensor) -> Tensor:
        lent.append((tensor, transfer.plain(tensor)))
        return lent[-1][1]

    args, kwargs = tree_map_only(cls, lend, (args, kwargs))
    with torch._C.DisableTorchFunction(), _NoDefaultDevice():
        out = func(*args, **kwargs)
    return tree_map_only(Tensor, lambda t: next((own for own, plain in lent if plain is t), t), out)


class _NoDefaultDevice:
    def __enter__(self) -> None:
        self._before, device_context.CURRENT_DEVICE = device_context.CURRENT_DEVICE, None

    def __exit__(self, *exc) -> None:
        device_context.CURRENT_DEVICE = self._before
