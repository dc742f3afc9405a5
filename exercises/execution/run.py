"""Chapter "The CUDA execution model": what the learner's kernels and predictions did.

Kernels run on a virtual card, where an interpreter counts what each warp does."""

from collections.abc import Callable

import torch

from autograder.runner.kernels_ran import kernels_ran, work_of
from autograder.runner.observed import observe


def filled(call: Callable, *inputs: torch.Tensor) -> dict:
    """What ``call``, which kernels do with ``inputs``, did to a tensor of NaN like the first of them."""
    out = torch.full_like(inputs[0], torch.nan)
    torch.cuda.synchronize()
    with kernels_ran(*inputs, out) as ran, observe() as seen:
        returned = call(out)
    return work_of(out, ran, seen) | {"out": out.cpu(), "returned": returned}
