"""The loops whose memory ``classify_growth`` is to judge: real steps on the card, put together from a plan."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from gpulab.cuda.device import state


class Stopped(torch.OutOfMemoryError, StopIteration):
    """What a step raises where its plan says so. A generator that runs steps, or ``map``, takes it for an end."""


class Holder:
    """Refers to itself: what it holds is freed by Python's collector alone."""

    def __init__(self, held: object) -> None:
        self.held, self.itself = held, self


class Keep:
    """Puts what a step made under the key that ``keys`` names for the step; None keeps nothing.

    ``once``: what a key holds is not replaced. ``emptied``: the steps before and after whose work all keys are dropped.
    """

    def __init__(self, what: str, keys: list, once: bool, emptied: list[list[int]]) -> None:
        self.what, self._keys, self._once = what, keys, once
        self._before, self._after = emptied
        self._held: dict[int, Any] = {}

    def begins(self, number: int) -> None:
        if number in self._before:
            self._held.clear()

    def takes(self, number: int, made: dict) -> None:
        key = self._keys[number - 1]
        if key is not None and not (self._once and key in self._held):
            self._held[key] = _KEPT[self.what](self._held.get(key), made)

    def ends(self, number: int) -> None:
        if number in self._after:
            self._held.clear()


_KEPT: dict[str, Callable[[Any, dict], Any]] = {
    "loss": lambda held, made: made["loss"],
    "detached": lambda held, made: made["loss"].detach(),
    "output": lambda held, made: made["output"],
    "batch": lambda held, made: made["batch"],
    "number": lambda held, made: made["loss"].item(),
    "host": lambda held, made: made["output"].detach().cpu(),
    "cycle": lambda held, made: Holder(made["output"].detach()) and None,
    "total": lambda held, made: made["loss"] + (0 if held is None else held),
    "weighted": lambda held, made: made["loss"] * torch.full((), 3.0, device="cuda") + (0 if held is None else held),
}


class Loop:
    """What a notebook's loop holds between two steps; ``step()`` is one of them. ``calls``: how many there were."""

    def __init__(self, plan: dict) -> None:
        self._plan, self.calls = plan, 0
        self._weight = torch.nn.Parameter(torch.ones(plan["width"], device="cuda"))
        self._optimizer = _OPTIMIZERS[plan["optimizer"]]([self._weight])
        self._keeps = [Keep(**keep) for keep in plan["keeps"]]
        self._stored = [torch.zeros(plan["width"], device="cuda") for _ in range(plan["stored"])]
        self._ring: dict[int, torch.Tensor] = {}
        self._named: dict[str, torch.Tensor] = {}

    def step(self) -> torch.Tensor | None:
        self.calls += 1
        number, plan = self.calls, self._plan
        if number == plan["stops"]:
            raise Stopped(f"step {number}")
        for keep in self._keeps:
            keep.begins(number)
        del self._stored[: plan["drawn"]]
        self._uses(number)
        made = self._made(number)
        for keep in self._keeps:
            keep.takes(number, made)
            keep.ends(number)
        self._named = made if plan["named"] else {}
        return made["loss"] if plan["returns"] else None

    def _uses(self, number: int) -> None:
        """Memory that is free again after the step, and a block of a ring that takes turns beside it."""
        scratch = [_bytes(size) for size in self._plan["scratch"][number - 1]]
        size, room = self._plan["ring"]
        if room:
            self._ring[number % room] = _bytes(size)
        del scratch

    def _made(self, number: int) -> dict[str, torch.Tensor]:
        trains = 0 < self._plan["trains_from"] <= number
        if trains and self._plan["clears"] == "before":
            self._optimizer.zero_grad()
        with nullcontext() if trains or self._plan["graph"] else torch.no_grad():
            batch = torch.ones(self._plan["rows"][number - 1], self._plan["width"], device="cuda")
            output = batch * self._weight
            loss = output.square().mean()
        if trains:
            loss.backward()
            self._optimizer.step()
            if self._plan["clears"] == "after":
                self._optimizer.zero_grad()
        return {"batch": batch, "output": output, "loss": loss}


def _bytes(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


_OPTIMIZERS: dict[str, Callable] = {
    "SGD": torch.optim.SGD,
    "momentum": lambda parameters: torch.optim.SGD(parameters, momentum=0.9),
    "Adam": torch.optim.Adam,
}


class Watch:
    """Calls a loop's steps and notes what the card holds before each of them, and what was done to it in between."""

    def __init__(self, loop: Loop) -> None:
        self._loop, self._stats = loop, state.device_on().machine.allocator.stats
        self.held: list[int] = []
        self._before, self._inside = self._done(), [0, 0]

    def step(self) -> torch.Tensor | None:
        self.held.append(self._stats.all.allocated_bytes.current)
        before = self._done()
        try:
            return self._loop.step()
        finally:
            self._inside = [inside + now - then for inside, now, then in zip(self._inside, self._done(), before)]

    def found(self) -> dict:
        """``outside``: blocks taken, and segments given back, where no step was under way; ``peak``: of allocated bytes."""
        done = [now - then - inside for now, then, inside in zip(self._done(), self._before, self._inside)]
        peak = self._stats.all.allocated_bytes.peak
        return {"held": self.held, "calls": self._loop.calls, "outside": done, "peak": peak}

    def _done(self) -> list[int]:
        return [self._stats.all.allocation.allocated, self._stats.counts["num_device_free"]]
