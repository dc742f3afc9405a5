"""What ``accumulate`` did with a network, a loss, an optimizer, micro-batches and ``no_sync``, all of which note their use."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.autograd.run import no_collector
from exercises.autograd.run_step import Marked, Network, left_over, now_us, parameter_groups
from exercises.autograd.run_step import Watch as StepWatch
from gpulab.observe.authors import memory


class Stopped(ArithmeticError, StopIteration):
    """What a model or a loss raises. A generator that calls it, or ``map``, takes it for an end."""


class Stops:
    """Raises ``error``, an ArithmeticError, when it is asked for the ``number``-th time; 0: never."""

    def __init__(self, number: int, error: type[ArithmeticError] = Stopped) -> None:
        self._left, self._error = number, error

    def ask(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise self._error("stopped")


class Mixing(Network):
    """Of a sequence each token takes in the one before it; ``mix`` takes no part where sequences have one token."""

    def __init__(self, weights: list[torch.Tensor], stops_at: int) -> None:
        super().__init__(weights[:-1])
        self.mix = torch.nn.Parameter(weights[-1].clone())
        self._stops = Stops(stops_at)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._stops.ask()
        if x.shape[1] > 1:
            x = x + x.roll(1, 1) * self.mix
        for layer in self.body:
            x = layer(x).tanh()
        return Marked.apply(self.head(x) * self.gain, self.nodes)


class SumOfTokens:
    """``values``: what each call came to, read where nobody sees it."""

    def __init__(self, stops_at: int) -> None:
        self.values: list[float] = []
        self._stops = Stops(stops_at)

    def __call__(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self._stops.ask()
        loss = cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        self.values.append(float(values_of(loss)))
        return loss


class NoSync:
    """Gives contexts that can be entered once each, as DistributedDataParallel's; ``depth``: how many are entered now."""

    def __init__(self) -> None:
        self.depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


class Feed:
    """Micro-batches of which none is held here; ``asked``: how many were asked for, the one that was not there too."""

    def __init__(self, stored: list[tuple[torch.Tensor, torch.Tensor]], kind: str, stops_at: int) -> None:
        self._stored, self.kind, self._stops = stored, kind, Stops(stops_at, ArithmeticError)
        self.asked = 0
        self.listed = [tuple(pair) for pair in stored] if kind == "list" else None

    def given(self) -> Any:
        """What the learner's function gets: a list, a generator, or something that can be gone through once."""
        return self.listed if self.kind == "list" else self._generator() if self.kind == "generator" else self

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> list[torch.Tensor]:
        self.asked += 1
        self._stops.ask()
        if self.asked > len(self._stored):
            raise StopIteration
        return [part.clone() for part in self._stored[self.asked - 1]]

    def _generator(self) -> Iterator[list[torch.Tensor]]:
        for x, y in self._stored:
            self.asked += 1
            self._stops.ask()
            yield [x.clone(), y.clone()]
        self.asked += 1


class Watch(StepWatch):
    """Notes what is held at each call of the network, where its gradients come, and what the optimizer steps with."""

    def __init__(self, model: Mixing, optimizer: torch.optim.Optimizer, no_sync: NoSync) -> None:
        super().__init__(model, optimizer)
        self._no_sync = no_sync
        self.feed: Feed | None = None
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._accumulated)

    def begin(self, feed: Feed) -> None:
        self.feed, self.calls, self.steps = feed, [], []

    def _called(self, model: Mixing, inputs: tuple) -> None:
        noted = {
            "us": now_us(),
            "last_us": -1.0,
            "asked": self.feed.asked,
            "shape": list(inputs[0].shape),
            "depths": [],
        }
        old = sum(p.grad is not None for p in model.parameters())
        graphs = sum(node() is not None for node in model.nodes)
        self.calls.append({**noted, "depth": self._no_sync.depth, "old": old, "graphs": graphs, **self.holds()})

    def _accumulated(self, parameter: torch.Tensor) -> None:
        if self.calls:
            self.calls[-1]["depths"].append(self._no_sync.depth)
            self.calls[-1]["last_us"] = now_us()

    def _steps(self, *_: Any) -> None:
        gradients = [p.grad for p in self._model.parameters()]
        self.steps.append(
            {
                "after": len(self.calls),
                "gradients": [None if gradient is None else values_of(gradient) for gradient in gradients],
                "graphs": sum(gradient is not None and gradient.requires_grad for gradient in gradients),
            }
        )


def values_of(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values, without an operation that anyone would see."""
    flat = memory(tensor).view(str(tensor.dtype).removeprefix("torch."))[tensor.storage_offset() :]
    strides = [stride * tensor.itemsize for stride in tensor.stride()]
    return np.lib.stride_tricks.as_strided(flat, tuple(tensor.shape), strides).copy()


def listed(result: object) -> dict[str, Any]:
    """What a function returned: a list as plain numbers and the types of its entries, of anything else its type alone."""
    entries = list(result) if isinstance(result, list) else []
    return {
        "type": type(result).__name__ if not isinstance(result, list) else "list",
        "returned": [float.__add__(entry, 0.0) if isinstance(entry, float) else None for entry in entries],
        "entries": ["float" if isinstance(entry, float) else type(entry).__name__ for entry in entries],
    }


def run(learner: Learner, case: dict) -> dict:
    """Go through micro-batches, once or several times, watched; nothing but the learner's function takes or frees memory."""
    with idle_card():
        stops = {"model": 0, "loss": 0, "feed": 0} | case["stops"]
        model, loss_fn = Mixing(case["weights"], stops["model"]).cuda(), SumOfTokens(stops["loss"])
        optimizer = getattr(torch.optim, case["optimizer"])(parameter_groups(model, case), **case["options"])
        kept, no_sync = left_over(model, case), NoSync()
        watch = Watch(model, optimizer, no_sync)
        feeds = [
            Feed([(x.cuda(), y.cuda()) for x, y in pairs], case["feed"], stops["feed"]) for pairs in case["epochs"]
        ]
        work = lambda feed: learner.accumulate(model, optimizer, feed.given(), case["group"], loss_fn, no_sync)
        torch.cuda.synchronize()
        with no_collector(), observe() as seen:
            taken = [_one_epoch(work, feed, model, loss_fn, watch, no_sync) for feed in feeds]
        return {
            "taken": [_as_tensors(each) for each in taken],
            "parameters": [parameter.detach().cpu() for parameter in model.parameters()],
            "kept": [gradient.cpu() for gradient in kept],
            "listed": [[[part.cpu() for part in pair] for pair in feed.listed or ()] for feed in feeds],
            "seen": seen.to_dict(),
        }


def _one_epoch(work: Callable, feed: Feed, model: Mixing, loss_fn: SumOfTokens, watch: Watch, no_sync: NoSync) -> dict:
    """What one call came to; its result is held while the card is read."""
    watch.begin(feed)
    loss_fn.values, model.nodes = [], []
    before, began_us = watch.holds(), now_us()
    depths: list[int] = []

    def worked() -> object:
        try:
            return work(feed)
        finally:  # later a context that nobody left may be gone with its frame
            depths.append(no_sync.depth)

    found = outcome(worked)
    return {
        **({"error": found["error"]} if "error" in found else listed(found["returned"])),
        "before": before,
        "began_us": began_us,
        "values": list(loss_fn.values),
        "calls": watch.calls,
        "steps": watch.steps,
        "asked": feed.asked,
        "depth": max(depths),
        "after": watch.holds(),
        "old": sum(parameter.grad is not None for parameter in model.parameters()),
        "alive": sum(node() is not None for node in model.nodes),
    }


def _as_tensors(each: dict) -> dict:
    """What the optimizer stepped with, as tensors."""
    steps = [
        step
        | {"gradients": [None if gradient is None else torch.from_numpy(gradient) for gradient in step["gradients"]]}
        for step in each["steps"]
    ]
    return each | {"steps": steps}
