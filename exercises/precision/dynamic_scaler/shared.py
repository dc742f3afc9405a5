"""E8.2: parameters and their optimizers, the same in the learner's process and in the referee."""

import torch
from torch import Tensor


class Optimized:
    """What a job trains, on the device ``on``: parameters, by optimizer in ``groups``."""

    def __init__(self, job: dict, on: str) -> None:
        self.groups = [
            [torch.nn.Parameter(_transposed(p.clone()).to(on)) for p in group] for group in job["parameters"]
        ]
        self.parameters = sum(self.groups, [])
        self.optimizers = [
            getattr(torch.optim, name)([{"params": [p]} for p in group] if on == "cuda" else group, **options)
            for group, (name, options) in zip(self.groups, job["optimizers"], strict=True)
        ]

    def values(self) -> list[Tensor]:
        return [p.detach().cpu().clone() for p in self.parameters]

    def states(self) -> list[dict[str, Tensor]]:
        """Of each parameter what its optimizer keeps: step counters and moments, nothing where there is none yet."""
        kept = {p: state for optimizer in self.optimizers for p, state in optimizer.state.items()}
        return [
            {key: value.detach().cpu().clone() for key, value in kept.get(p, {}).items() if isinstance(value, Tensor)}
            for p in self.parameters
        ]

    def clip(self, of: int, max_norm: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.groups[of], max_norm)

    def mend(self, of: int) -> None:
        """Put zeros for what is not finite among an optimizer's gradients."""
        for parameter in self.groups[of]:
            if parameter.grad is not None:
                parameter.grad.nan_to_num_(0.0, 0.0, 0.0)

    def spoil(self, of: int) -> None:
        """Put an inf among an optimizer's gradients."""
        self.groups[of][0].grad[0] = torch.inf


def _transposed(parameter: Tensor) -> Tensor:
    """One of two dimensions with the first as the last in memory."""
    return parameter.t().contiguous().t() if parameter.ndim == 2 else parameter
