"""``@triton.jit``: a kernel that runs on a GPU, or under the interpreter, counted in both cases."""

import math
from collections.abc import Callable

import torch

from gpulab.compat.triton import JITFunction
from gpulab.cuda.device import state
from gpulab.cuda.errors import NotModelled
from gpulab.kernels.errors import LaunchError, MemoryFault
from gpulab.kernels.simt.limits import MAX_GRID
from gpulab.kernels.tiles import interpret, modelled, real
from gpulab.observe import device as observed
from gpulab.observe.launches import WARP, Fault, Launch
from gpulab.observe.lines import learners_line
from gpulab.units import plural

_OPTIONS = {
    "num_warps", "num_stages", "num_ctas", "maxnreg", "debug", "launch_cooperative_grid", "launch_pdl",
    "enable_fp_fusion", "cluster_dims", "ptx_version", "sanitize_overflow", "extern_libs", "ir_override",
    "default_dot_input_precision", "max_num_imprecise_acc_default", "arch",
}  # fmt: skip
_WARPS, _MOST_WARPS = 4, 32


class Kernel(JITFunction):
    """A Triton kernel. ``kernel[grid](*arguments, **options)`` launches it, as in Triton.

    On a GPU Triton compiles and runs it; an ``observe()`` block then counts a second run, under
    the interpreter on copies of the arguments (untested on a GPU). Elsewhere the interpreter runs
    it, on CPU tensors or on those of the virtual card, where it is one kernel of the current
    stream. A lane outside its array is neither read nor written: it is a fault of the Launch, and
    outside an ``observe()`` block raises MemoryFault. A lane that a mask switches off without
    ``other`` holds NaN, or a nonsense integer, and is a fault once it is used: stored, added,
    an address, or what a branch goes by.
    """

    def run(self, *args, grid, warmup, **kwargs):
        arguments = self._bound(args, kwargs)
        if warmup:
            return super().run(*args, grid=grid, warmup=True, **kwargs) if real.on_gpu(arguments) else _NotCompiled()
        if real.on_gpu(arguments):
            return self._on_gpu(arguments, grid, args, kwargs)
        modelled.check_devices(arguments)
        sizes = _sizes(grid, arguments)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        if math.prod(sizes):
            self._interpreted(arguments, sizes, _warps(kwargs))
        return None

    def __call__(self, *args, **kwargs):
        if not interpret.interpreting():
            return super().__call__(*args, **kwargs)
        return interpret.device_function(self.fn, *args, **kwargs)

    def _interpreted(self, arguments: dict, grid: tuple[int, int, int], warps: int) -> None:
        counted = observed.observing() or state.is_on()
        run = interpret.interpret_both_ways(self.fn, arguments, self._constants(), grid, counted)
        if state.is_on():
            modelled.account(self.__name__, run, math.prod(grid) * warps * WARP)
        if observed.observing():
            self._record(run, grid, arguments, warps)
        else:
            self._raise_faults(run)

    def _record(self, run: interpret.Run, grid: tuple[int, int, int], arguments: dict, warps: int) -> None:
        counts = run.counts
        launch = Launch(
            self.__name__,
            "triton",
            grid,
            (1, 1, 1),
            0,
            learners_line(),
            counts.lines(),
            counts.races(),
            run.faults.records(),
            arrays=counts.arrays(),
            num_warps=warps,
        )
        owners = dict(interpret.tensors_of(arguments))
        written = [(owners[array], mask) for array, mask in counts.written().items()]
        observed.record_launch(launch, written)

    def _raise_faults(self, run: interpret.Run) -> None:
        for fault in run.faults.records():
            raise MemoryFault(
                fault,
                f"{fault.kind}: program {fault.thread} {_done(fault)}\n"
                f"  {fault.line.function}, line {fault.line.number}: {fault.line.text}",
            )

    def _on_gpu(self, arguments: dict, grid, args, kwargs):
        sizes = _sizes(grid, arguments)
        counted = None
        if observed.observing() and math.prod(sizes):
            copies = real.host_copies(arguments)
            counted = interpret.interpret_both_ways(self.fn, copies, self._constants(), sizes, True)
        done = super().run(*args, grid=grid, warmup=False, **kwargs)
        if counted is not None:
            self._record(counted, sizes, arguments, _warps(kwargs))
        return done

    def _constants(self) -> set[str]:
        return {parameter.name for parameter in self.params if parameter.is_constexpr}

    def _bound(self, args: tuple, kwargs: dict) -> dict:
        own = {name: value for name, value in kwargs.items() if name in self.signature.parameters}
        for name in kwargs:
            if name not in own and name not in _OPTIONS:
                raise KeyError(f"Keyword argument {name} was specified but unrecognised")
        bound = self.signature.bind(*args, **own)
        bound.apply_defaults()
        return dict(bound.arguments)


class _NotCompiled:
    """What ``kernel.warmup(...)`` gives where no GPU is."""

    def __getattr__(self, name: str):
        raise NotModelled(
            f"a compiled kernel's {name}: registers and shared memory are what Triton's compiler makes of it for a GPU, which"
        )


def _done(fault: Fault) -> str:
    lanes = plural(fault.count, "lane")
    if fault.kind == "masked lane used":
        return (
            f"uses what a mask kept it from loading from {fault.array}, in {lanes}. Triton leaves such a lane "
            "undefined: give this load other=..., or mask the result"
        )
    return f"uses element {fault.index[0]} of {fault.array}, and {lanes} in all. Is a mask missing?"


def _warps(options: dict) -> int:
    """Warps of each program. Raises LaunchError for a number that Triton does not compile."""
    asked = options.get("num_warps", _WARPS)
    if not isinstance(asked, int) or not 1 <= asked <= _MOST_WARPS or asked & (asked - 1):
        raise LaunchError(f"num_warps={asked!r}: a power of two from 1 to {_MOST_WARPS}")
    return asked


def _sizes(grid: tuple | Callable, arguments: dict) -> tuple[int, int, int]:
    """Programs along x, y and z. Raises LaunchError for a grid that CUDA would not launch."""
    asked = grid(arguments) if callable(grid) else grid
    if not isinstance(asked, (tuple, list)) or not 1 <= len(asked) <= 3:
        raise LaunchError(f"a grid is a tuple of one to three sizes, as in kernel[(n,)](...), not {asked!r}")
    sizes = (*asked, *(1,) * (3 - len(asked)))
    for size, limit in zip(sizes, MAX_GRID):
        if isinstance(size, (bool, torch.Tensor)) or not isinstance(size, int) or not 0 <= size <= limit:
            raise LaunchError(f"grid {tuple(asked)}: {size!r} is no whole number from 0 to {limit}")
    return sizes
