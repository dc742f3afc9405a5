"""Whether the launches of an observation are those of kernels that ran, and a result is their work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch

from gpulab import Observation
from gpulab.observe import device, launches
from gpulab.observe.lines import is_learners


@dataclass(frozen=True)
class Interpreter:
    """Where kernels run: ``runner`` hands each launch to ``keeper``'s ``record_launch``."""

    runner: ModuleType
    keeper: ModuleType
    modules: tuple[ModuleType, ...]

    @property
    def instruments(self) -> tuple[ModuleType, ...]:
        return (*self.modules, self.runner, device, launches)


def simt() -> Interpreter:
    """Of ``@cuda.jit`` kernels."""
    from gpulab.kernels.simt import arrays, batch, counters, launcher, races, requests, run, statements

    return Interpreter(launcher, launcher, (arrays, batch, counters, races, requests, run, statements))


def tiles() -> Interpreter:
    """Of ``@triton.jit`` kernels. Raises ImportError without Triton."""
    from gpulab.kernels.tiles import builder, counts, interpret, kernel, memory, modelled, races

    return Interpreter(kernel, device, (builder, counts, interpret, memory, modelled, races))


class Ran:
    """What :func:`kernels_ran` saw; ``problem`` is complete once its block has ended."""

    def __init__(self) -> None:
        self.launches: list = []
        self.replaced: list[str] = []

    def problem(self, seen: Observation) -> str:
        """Why the launches in ``seen`` are not believed; empty when they are."""
        if self.replaced:
            return f"{self.replaced[0]} is not gpulab's own"
        made = {id(launch) for launch in self.launches}
        if made != {id(launch) for launch in seen.launches}:
            return "the record of launches is not that of the kernels that ran"
        return ""


@contextmanager
def kernels_ran(interpreter: Callable[[], Interpreter] = simt) -> Iterator[Ran]:
    """Keep every launch that the interpreter itself hands over inside the block."""
    home = interpreter()
    ran, record = Ran(), home.keeper.record_launch
    ran.replaced += _replaced(home)

    def noted(launch, *rest, **named) -> None:
        if sys._getframe(1).f_code.co_filename == home.runner.__file__:
            ran.launches.append(launch)
        record(launch, *rest, **named)

    home.keeper.record_launch = noted
    try:
        yield ran
    finally:
        if home.keeper.record_launch is not noted:
            ran.replaced.append("record_launch")
        home.keeper.record_launch = record
        ran.replaced += _replaced(home)


def work_of(result: Any, ran: Ran, seen: Observation) -> dict:
    """What a judge needs to believe that kernels made a result.

    ``kernel_bytes``: bytes of it that kernels wrote last. ``tampered``: why the launches are not
    believed, or nothing.
    """
    written = seen.authors(result).launch_bytes if isinstance(result, torch.Tensor) and result.numel() else 0
    return {"kernel_bytes": written, "tampered": ran.problem(seen), "seen": seen.to_dict()}


def _replaced(home: Interpreter) -> list[str]:
    """Functions of the interpreter and of its record that a notebook has put there."""
    return [
        name
        for module in home.instruments
        for name, function in _functions(module)
        if is_learners(SimpleNamespace(f_code=function.__code__)) and function.__code__.co_filename != "<string>"
    ]  # a dataclass writes methods of its own, in no file


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    for owner in owners:
        for name, value in vars(owner).items():
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                yield name, function
