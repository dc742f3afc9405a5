"""PyTorch's and NumPy's settings as a fresh notebook has them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch


@contextmanager
def fresh_settings() -> Iterator[None]:
    """Inside the block the settings that a notebook may have changed are the defaults; afterwards its own.

    Default dtype and device, autograd's modes, and what NumPy does about overflow. A learner who
    tried one of them out in an earlier cell is graded like any other.
    """
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autograd.set_detect_anomaly(False))
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        stack.callback(torch.set_default_dtype, dtype)
        torch.set_default_dtype(torch.float32)
        if device.type != "cpu":
            stack.callback(torch.set_default_device, device)
            torch.set_default_device(None)
        yield
