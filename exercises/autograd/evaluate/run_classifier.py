"""What ``evaluate`` is given: a classifier, a loader and a loss function, all of which note how they are used."""

from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from exercises.autograd.run_step import now_us
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
        self.calls: list[dict] = []
        self._stops_at, self._in_columns = stops_at, case["in_columns"]
        self.register_forward_pre_hook(lambda module, given: self._note(given[0]))
        self.forwards = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.forwards += 1
        if self.forwards == self._stops_at:
            raise KeyboardInterrupt
        return self.head(self.body(x.T if self._in_columns else x).tanh())

    def modes(self) -> list[bool]:
        return [module.training for module in self.modules()]

    def _note(self, x: torch.Tensor) -> None:
        held, training = torch.cuda.memory_allocated() if x.is_cuda else 0, any(self.modes())
        self.calls.append({"training": training, "grad": torch.is_grad_enabled(), "held": held, "us": now_us()})


class Loss:
    """The mean of a batch; raises in its call number ``stops_at``. ``values``: rows and loss of each call, read unseen.

    It raises LookupError, and where the number is negative StopIteration, which is no end of the loader.
    """

    def __init__(self, one_element: bool, stops_at: int) -> None:
        self._one_element, self._stops_at = one_element, abs(stops_at)
        self._kind = StopIteration if stops_at < 0 else LookupError
        self.values: list[list] = []
        self.graphs = 0

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if len(self.values) + 1 == self._stops_at:
            raise self._kind("a class that is not there")
        loss = cross_entropy(output, target)
        loss = loss[None] if self._one_element else loss
        number = memory(loss).view(str(loss.dtype).removeprefix("torch."))[0].item()
        self.values.append([len(target), number])
        self.graphs += output.requires_grad
        return loss


class Loader:
    """Gives each batch once, a new one in the memory of nobody; ``asked``: calls of the model before each batch."""

    def __init__(self, batches: list[tuple], model: Classifier, stops_at: int) -> None:
        self._batches, self._model, self._stops_at = iter(batches), model, stops_at
        self.asked: list[int] = []

    def __iter__(self) -> Iterator[tuple]:
        return self

    def __next__(self) -> tuple:
        self.asked.append(self._model.forwards)
        if len(self.asked) == self._stops_at:
            raise OSError("a file that is not there")
        return next(self._batches)
