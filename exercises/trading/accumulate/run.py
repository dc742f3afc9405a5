"""What ``accumulate`` did with a network, a loss, an optimizer, micro-batches and ``no_sync``, whose use is noted as it happens.

Notes, by their word: ``asked``, for a micro-batch; ``called``, the network was, and what is held then; ``loss``, what the loss
came to; ``accumulated``, a parameter got a gradient: how many contexts are entered, and the host's clock; ``stepping``, with
which gradients, each ``None`` or shape, dtype and bytes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any
from weakref import ref

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from autograder.protocol.event_sink import emit_note
from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.autograd.run import no_collector
from exercises.autograd.run_step import (
    Network,
    alive,
    gradients_of,
    holds,
    left_over,
    marking,
    now_us,
    parameter_groups,
    stopping,
)
from gpulab.observe.authors import memory


class Stopped(ArithmeticError, StopIteration):
    """What a model or a loss raises. A generator that calls it, or ``map``, takes it for an end."""


class Mixing(Network):
    """Of a sequence each token takes in the one before it; ``mix`` takes no part where sequences have one token."""

    def __init__(self, weights: list[torch.Tensor], mark: Callable, stops_at: int) -> None:
        super().__init__(weights[:-1], mark)
        self.mix = torch.nn.Parameter(weights[-1].clone())
        self._begins = stopping(stops_at, Stopped)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._begins()
        if x.shape[1] > 1:
            x = x + x.roll(1, 1) * self.mix
        for layer in self.body:
            x = layer(x).tanh()
        return self._mark(self.head(x) * self.gain)


def summing(stops_at: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The loss of a micro-batch, summed over its tokens; what it came to is read where nobody sees it."""
    begins = stopping(stops_at, Stopped)

    def sum_of_tokens(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        begins()
        loss = cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        emit_note("loss", float(values_of(loss)))
        return loss

    return sum_of_tokens


def contexts() -> tuple[Callable, Callable[[], int]]:
    """``no_sync``, whose contexts can be entered once each, as DistributedDataParallel's; and how many are entered now."""
    depth = 0

    @contextmanager
    def no_sync() -> Iterator[None]:
        nonlocal depth
        depth += 1
        try:
            yield
        finally:
            depth -= 1

    return no_sync, lambda: depth


def fed(stored: list[tuple[torch.Tensor, torch.Tensor]], kind: str, stops_at: int) -> Iterable:
    """What the learner's function gets: a list, or a generator or another iterator of micro-batches of which none is held here.

    They note each time that they are asked, and when there is no more.
    """
    if kind == "list":
        return [tuple(pair) for pair in stored]
    given = _given_once(stored, stopping(stops_at, ArithmeticError))
    return given if kind == "generator" else chain(given)


def _given_once(stored: list, begins: Callable[[], None]) -> Iterator[list[torch.Tensor]]:
    for x, y in stored:
        emit_note("asked")
        begins()
        yield [x.clone(), y.clone()]
    emit_note("asked")


def note_use(model: Mixing, optimizer: torch.optim.Optimizer, depth: Callable[[], int], born: list[ref]) -> None:
    """From now on note what is held at each call of the network, where its gradients come, and what the optimizer steps with."""

    def called(model: Mixing, inputs: tuple) -> None:
        there = {"depth": depth(), "old": gradients_of(model), "graphs": alive(born), **holds(model, optimizer)}
        emit_note("called", {"us": now_us(), "shape": list(inputs[0].shape), **there})

    model.register_forward_pre_hook(called)
    optimizer.register_step_pre_hook(lambda *_: emit_note("stepping", [_bytes_of(p.grad) for p in model.parameters()]))
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _: emit_note("accumulated", [depth(), now_us()]))


def _bytes_of(gradient: torch.Tensor | None) -> dict | None:
    if gradient is None:
        return None
    form = {"shape": list(gradient.shape), "dtype": str(gradient.dtype).removeprefix("torch.")}
    return {**form, "graph": gradient.requires_grad, "values": values_of(gradient).tobytes()}


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
        stops, born = {"model": 0, "loss": 0, "feed": 0} | case["stops"], []
        model = Mixing(case["weights"], marking(born), stops["model"]).cuda()
        optimizer = getattr(torch.optim, case["optimizer"])(parameter_groups(model, case), **case["options"])
        kept, (no_sync, depth), loss_fn = left_over(model, case), contexts(), summing(stops["loss"])
        note_use(model, optimizer, depth, born)
        stored = [[(x.cuda(), y.cuda()) for x, y in pairs] for pairs in case["epochs"]]
        feeds = [fed(pairs, case["feed"], stops["feed"]) for pairs in stored]
        work = lambda feed: learner.accumulate(model, optimizer, feed, case["group"], loss_fn, no_sync)
        torch.cuda.synchronize()
        with no_collector(), observe() as seen:
            taken = [_one_epoch(lambda feed=feed: work(feed), model, optimizer, depth, born) for feed in feeds]
        return {
            "taken": taken,
            "parameters": [parameter.detach().cpu() for parameter in model.parameters()],
            "kept": [gradient.cpu() for gradient in kept],
            "listed": [
                [[part.cpu() for part in pair] for pair in feed] if case["feed"] == "list" else [] for feed in feeds
            ],
            "seen": seen.to_dict(),
        }


def _one_epoch(
    work: Callable, model: Mixing, optimizer: torch.optim.Optimizer, depth: Callable[[], int], born: list[ref]
) -> dict:
    """What one call came to; its result is held while the card is read."""
    born.clear()
    before, began_us = holds(model, optimizer), now_us()
    emit_note("begins")
    depths: list[int] = []

    def worked() -> object:
        try:
            return work()
        finally:  # later a context that nobody left may be gone with its frame
            depths.append(depth())

    found = outcome(worked)
    return {
        **({"error": found["error"]} if "error" in found else listed(found["returned"])),
        "before": before,
        "began_us": began_us,
        "depth": max(depths),
        "after": holds(model, optimizer),
        "old": gradients_of(model),
        "alive": alive(born),
    }
