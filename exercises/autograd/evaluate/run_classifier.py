"""What ``evaluate`` is given: a classifier, a loader and a loss function, whose use is noted as it happens.

Notes, by their word: ``called``, modes, grad mode, bytes held and the host's clock when the model is called; ``forward``, its
``forward`` ran; ``loss``, rows and loss of a batch, and whether it has a graph; ``asked``, the loader was.
"""

from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from autograder.protocol.event_sink import emit_note
from exercises.autograd.run_step import now_us, stopping
from gpulab.observe.authors import memory


class Centre(torch.nn.Module):
    """Takes off the mean that it has learned; learns when in training mode, as a batch norm does."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((width,), 0.25, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return x - self.mean


class Classifier(torch.nn.Module):
    """Two layers, a norm and a dropout in a nest of modules, the dropout in two of them; raises in its call number ``stops_at``.

    Takes samples in rows, or in columns where the case says so.
    """

    def __init__(self, case: dict, stops_at: int) -> None:
        super().__init__()
        narrow, wide = (torch.nn.Linear(*reversed(weight.shape), dtype=weight.dtype) for weight in case["weights"])
        self.body = torch.nn.Sequential(
            narrow, Centre(len(case["weights"][0]), narrow.weight.dtype), torch.nn.Dropout(0.5)
        )
        self.head = torch.nn.Sequential(wide, self.body[2])
        with torch.no_grad():
            for layer, weight in zip((narrow, wide), case["weights"], strict=True):
                layer.weight.copy_(weight)
                layer.bias.zero_()
        self.head.requires_grad_(not case["frozen"])
        self._begins, self._in_columns = stopping(stops_at, KeyboardInterrupt), case["in_columns"]
        self.register_forward_pre_hook(lambda module, given: emit_note("called", _state_of(module, given[0])))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        emit_note("forward")
        self._begins()
        return self.head(self.body(x.T if self._in_columns else x).tanh())


def modes_of(model: Classifier) -> list[bool]:
    return [module.training for module in model.modules()]


def _state_of(model: Classifier, x: torch.Tensor) -> dict:
    held, training = torch.cuda.memory_allocated() if x.is_cuda else 0, any(modes_of(model))
    return {"training": training, "grad": torch.is_grad_enabled(), "held": held, "us": now_us()}


class Loss:
    """The mean of a batch, read unseen; raises in its call number ``stops_at``.

    It raises LookupError, and where the number is negative StopIteration, which is no end of the loader.
    """

    def __init__(self, one_element: bool, stops_at: int) -> None:
        self._one_element = one_element
        self._begins = stopping(abs(stops_at), StopIteration if stops_at < 0 else LookupError)

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self._begins()
        loss = cross_entropy(output, target)
        loss = loss[None] if self._one_element else loss
        number = memory(loss).view(str(loss.dtype).removeprefix("torch."))[0].item()
        emit_note("loss", [len(target), number, output.requires_grad])
        return loss


def noting(batches: list[tuple], stops_at: int) -> Iterator[tuple]:
    """Gives each batch once, a new one in the memory of nobody; raises OSError when it is asked for number ``stops_at``."""
    begins = stopping(stops_at, OSError)
    while True:
        emit_note("asked")
        begins()
        if not batches:
            return
        yield batches.pop(0)
