"""Memory that nobody wrote, made to show."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def unwritten_is_nan() -> Iterator[None]:
    """What ``torch.empty`` allocates in the block is NaN, or the largest integer: never zero by luck."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled
