"""Whether the launches of an observation are those of kernels that ran."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType, SimpleNamespace

from gpulab import Observation
from gpulab.kernels.simt import arrays, batch, counters, launcher, races, requests, run, statements
from gpulab.observe import device, launches
from gpulab.observe.lines import is_learners

_INSTRUMENTS = (arrays, batch, counters, launcher, races, requests, run, statements, device, launches)


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
def kernels_ran() -> Iterator[Ran]:
    """Keep every launch that the interpreter itself hands over inside the block."""
    ran, record = Ran(), launcher.record_launch
    ran.replaced += _replaced()

    def noted(launch, *rest, **named) -> None:
        if sys._getframe(1).f_code.co_filename == launcher.__file__:
            ran.launches.append(launch)
        record(launch, *rest, **named)

    launcher.record_launch = noted
    try:
        yield ran
    finally:
        if launcher.record_launch is not noted:
            ran.replaced.append("record_launch")
        launcher.record_launch = record
        ran.replaced += _replaced()


def _replaced() -> list[str]:
    """Functions of the interpreter and of its record that a notebook has put there."""
    return [
        name
        for module in _INSTRUMENTS
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
