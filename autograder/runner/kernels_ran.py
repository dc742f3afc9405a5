"""Whether the launches of an observation are those of kernels that ran, and a result is their work alone."""

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from autograder.runner.sources import Sources
from gpulab import Observation
from gpulab.observe import device, launches
from gpulab.observe.lines import is_learners_file


@dataclass(frozen=True)
class Interpreter:
    """Where kernels run: ``runner`` hands each launch to ``keeper``'s ``record_launch``.

    Before it, it calls ``gate``, a function of ``gatekeeper``; the argument at place ``arguments``
    holds those of the launch, by parameter.
    """

    runner: ModuleType
    keeper: ModuleType
    modules: tuple[ModuleType, ...]
    gatekeeper: ModuleType
    gate: str
    arguments: int

    @property
    def instruments(self) -> tuple[ModuleType, ...]:
        return (*self.modules, self.runner, device, launches)


def simt() -> Interpreter:
    """Of ``@cuda.jit`` kernels."""
    from gpulab.kernels.simt import (
        arguments,
        arrays,
        atomics,
        batch,
        counters,
        expressions,
        launcher,
        races,
        releases,
        requests,
        run,
        spin_wait,
        statements,
        virtual,
        warp_scheduler,
    )

    modules = (
        arguments, arrays, atomics, batch, counters, expressions, races, releases, requests, run, spin_wait, statements,
        warp_scheduler, virtual,
    )  # fmt: skip
    return Interpreter(launcher, launcher, modules, virtual, "check_sides", 0)


def tiles() -> Interpreter:
    """Of ``@triton.jit`` kernels. Raises ImportError without Triton."""
    from gpulab.kernels.tiles import (
        builder,
        counts,
        interpret,
        kernel,
        libdevice,
        memory,
        modelled,
        order,
        races,
        taint,
    )

    modules = (builder, counts, interpret, libdevice, memory, modelled, order, races, taint)
    return Interpreter(kernel, device, modules, interpret, "interpret_both_ways", 1)


class Ran:
    """What :func:`kernels_ran` saw; ``problem`` is complete once its block has ended."""

    def __init__(self, handed: Iterable[torch.Tensor]) -> None:
        self.sources = Sources(handed)
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
def kernels_ran(*handed: torch.Tensor, interpreter: Callable[[], Interpreter] = simt) -> Iterator[Ran]:
    """Keep every launch that the interpreter itself hands over inside the block.

    handed: the tensors that kernels may read besides those that they wrote.
    """
    home = interpreter()
    ran, record, gate = Ran(handed), home.keeper.record_launch, getattr(home.gatekeeper, home.gate)
    ran.replaced += _replaced(home)

    def noted(launch, *rest, **named) -> None:
        if sys._getframe(1).f_code.co_filename == home.runner.__file__:
            ran.launches.append(launch)
            ran.sources.after(launch, *rest)
        record(launch, *rest, **named)

    def guarded(*rest, **named):
        ran.sources.before(rest[home.arguments])
        return gate(*rest, **named)

    home.keeper.record_launch = noted
    setattr(home.gatekeeper, home.gate, guarded)
    try:
        yield ran
    finally:
        if home.keeper.record_launch is not noted:
            ran.replaced.append("record_launch")
        if getattr(home.gatekeeper, home.gate) is not guarded:
            ran.replaced.append(home.gate)
        home.keeper.record_launch = record
        setattr(home.gatekeeper, home.gate, gate)
        ran.replaced += _replaced(home)


def work_of(result: Any, ran: Ran, seen: Observation) -> dict:
    """What a judge needs to believe that kernels made a result.

    ``kernel_bytes``: bytes of it that kernels wrote last. ``tampered``: why the launches are not
    believed, or nothing. ``strange``: by which parameter a kernel read something that is neither
    what the function was handed nor a kernel's work, or nothing.
    """
    written = seen.authors(result).launch_bytes if isinstance(result, torch.Tensor) and result.numel() else 0
    told = {"tampered": ran.problem(seen), "strange": ran.sources.problem}
    return {"kernel_bytes": written, **told, "seen": seen.to_dict()}


def _replaced(home: Interpreter) -> list[str]:
    """Functions of the interpreter and of its record that a notebook has put there."""
    functions = [named for owner in _owners(home.instruments) for named in _functions(owner)]
    # To ask each for its code raises an audit event each, which takes as long as a kernel's run.
    refer_to = gc.get_referents(*(function for _, function in functions))
    if not any(isinstance(one, CodeType) and _is_a_notebooks(one) for one in refer_to):
        return []
    return [name for name, function in functions if _is_a_notebooks(function.__code__)]


def _is_a_notebooks(code: CodeType) -> bool:
    """A dataclass writes methods of its own, in no file."""
    return code.co_filename != "<string>" and is_learners_file(code.co_filename)


def _owners(modules: Iterable[ModuleType]) -> Iterable[ModuleType | type]:
    """The modules and the classes named in them, each once."""
    named = (owner for module in modules for owner in (module, *vars(module).values()))
    return dict.fromkeys(owner for owner in named if owner in modules or isinstance(owner, type))


def _functions(owner: ModuleType | type) -> Iterator[tuple[str, FunctionType]]:
    for name, value in vars(owner).items():
        function = getattr(value, "__func__", value)
        if isinstance(function, FunctionType):
            yield name, function


def same_memory(one: Any, other: Any) -> bool:
    """Of one storage, though it has no bytes, or of one address."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    a, b = one.untyped_storage(), other.untyped_storage()
    return a._cdata == b._cdata or 0 != a.data_ptr() == b.data_ptr()


def on_host(value: Any) -> Any:
    """What the tensor holds; a tensor that is not on the card crosses as what it is not."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.cpu() if value.is_cuda else "a tensor that is not on the card"
