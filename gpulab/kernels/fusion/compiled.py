"""``watch``: ``torch.compile`` with a witness."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import patch

import torch

import gpulab.cuda
from gpulab.compat.dispatch import disable_current_modes
from gpulab.compat.dynamo import forget_names, reset
from gpulab.compat.pytree import tree_map
from gpulab.cuda.device import state
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.device.transfer import plain
from gpulab.kernels.fusion import dynamo, inductor
from gpulab.kernels.fusion.records import Call, FusedKernel, GraphBreak, Recompilation, Report


class Watched:
    """A compiled function that remembers what its calls compiled and launched."""

    def __init__(self, fn: Callable, **options) -> None:
        self._calls: list[Call] = []
        self._launched: list[FusedKernel] = []
        self._breaks: list[GraphBreak] = []
        self._recompilations: list[Recompilation] = []
        self._graphs = 0
        fn = _with_host_parameters(fn)
        with _without_the_virtual_card():
            reset()
            # Its tables of names were perhaps filled while the card stood in for some functions.
            forget_names()
            self._compiled = torch.compile(fn, **options)

    def __call__(self, *args, **kwargs):
        """Call the function. Tensors of the virtual card are computed with on the CPU, and come back on it."""
        args, kwargs = tree_map(_as_host, (args, kwargs))
        virtual, self._launched = state.is_on(), []
        with (
            _without_the_virtual_card(),
            _no_progress_thread(),
            # Under a dispatch mode, as observe() is one, Dynamo compiles nothing and says nothing.
            disable_current_modes(),
            inductor.planned(self._launch, self._count_graph),
            dynamo.watched(self._break, self._recompilations.append),
        ):
            result = self._compiled(*args, **kwargs)
        self._calls.append(Call(tuple(self._launched)))
        return tree_map(_as_device, result) if virtual else result

    @property
    def report(self) -> Report:
        """All calls so far."""
        return Report(tuple(self._calls), self._graphs, tuple(self._breaks), tuple(self._recompilations))

    def __repr__(self) -> str:
        return str(self.report)

    def _launch(self, kernels: tuple[FusedKernel, ...]) -> None:
        self._launched.extend(kernels)

    def _break(self, found: GraphBreak) -> None:
        # A recompiled graph breaks at the same place again.
        if found not in self._breaks:
            self._breaks.append(found)

    def _count_graph(self) -> None:
        self._graphs += 1


def watch(fn: Callable, **options) -> Watched:
    """``torch.compile(fn, **options)`` that counts kernels, bytes, graph breaks and recompilations.

    fn: a function or a module. Dynamo forgets all that it compiled before, so that a report is that of
    a fresh process; a report of no graphs says that nothing was compiled. Only what a call itself runs is counted: a backward pass is where ``fn`` does it.
    With the virtual card on, ``fn`` sees CPU tensors: what it makes itself, it must make on its
    arguments' device.
    """
    return Watched(fn, **options)


def _without_the_virtual_card():
    return gpulab.cuda.use("off", quiet=True) if state.is_on() else nullcontext()


def _no_progress_thread():
    """torch.fx draws a progress bar: its monitor thread is not the learner's, and a witness could not tell."""
    return patch.object(torch.hub.tqdm, "monitor_interval", 0, create=True)


def _as_host(value):
    return plain(value) if isinstance(value, CudaTensor) else value


def _as_device(value):
    return CudaTensor.tag(value) if isinstance(value, torch.Tensor) else value


def _with_host_parameters(fn: Callable) -> Callable:
    """A module on the virtual card as its twin on the host; anything else as it is."""
    if not isinstance(fn, torch.nn.Module) or not any(
        isinstance(t, CudaTensor) for t in fn.state_dict(keep_vars=True).values()
    ):
        return fn
    twin = copy.deepcopy(fn)
    for module in twin.modules():
        for name, value in module._parameters.items():
            if value is not None:
                module._parameters[name] = torch.nn.Parameter(plain(value.detach()), value.requires_grad)
        for name, value in module._buffers.items():
            module._buffers[name] = _as_host(value)
    return twin
