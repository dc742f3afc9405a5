"""The device that ``with torch.device(...)`` and ``set_default_device`` name."""

import torch
import torch.utils._device as context
from torch.utils._device import DeviceContext as DeviceContext

constructors = context._device_constructors
"""The set of all functions that take ``device=``."""


def default_device() -> torch.device | None:
    """None where nobody named one."""
    if context.CURRENT_DEVICE is not None or not torch._C._len_torch_function_stack():
        return context.CURRENT_DEVICE
    modes = torch.overrides._get_current_function_mode_stack()
    return next((mode.device for mode in modes if isinstance(mode, DeviceContext)), None)


class no_default_device:
    """A block in which PyTorch's own Python finds none."""

    def __enter__(self) -> None:
        self._before, context.CURRENT_DEVICE = context.CURRENT_DEVICE, None

    def __exit__(self, *exc) -> None:
        context.CURRENT_DEVICE = self._before
