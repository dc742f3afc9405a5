"""Switches the virtual device on and off."""

import torch

from gpulab.cards.cards import Card
from gpulab.compat.functions import foreach_types
from gpulab.cuda.device import (
    accelerator,
    attention,
    bindings,
    clock,
    composed,
    early,
    factories,
    ghosts,
    gpu_trace,
    gradients,
    graphs,
    identity,
    legacy_types,
    methods,
    missing,
    nvtx,
    optim,
    profiler,
    recurrent,
    saving,
    state,
    storages,
    streams,
    subclasses,
    swapping,
    wrappers,
)
from gpulab.cuda.device.autocast import Autocast
from gpulab.cuda.device.dispatch import references_of_a_base, references_of_a_temporary
from gpulab.cuda.device.observed import ObservedDevice
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.randomness import Generator, default_generator
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.device.transfer import deliver
from gpulab.observe.device import set_device

_PARTS = (
    graphs, nvtx, missing, legacy_types, streams, accelerator, factories, methods, saving, storages, profiler,
    gpu_trace, ghosts, composed, optim, gradients, swapping, subclasses, wrappers, identity, attention,
    recurrent,
)  # fmt: skip


class Installation:
    """A virtual device, and what is replaced while it is on. It can be put on and off again.

    Raises NotModelled where the environment asks for an allocator that is not modelled.
    """

    def __init__(self, card: Card, ghost: bool = False) -> None:
        bindings.check_environment()
        self.device = device = state.VirtualDevice(card, ghost)
        references_of_a_temporary(0)
        references_of_a_base()
        device.generator = default_generator()
        device.machine.before_seen.append(device.pinned.look)
        device.machine.after_wait += [device.pinned.arrived, lambda: device.undelivered and deliver(device)]
        device.machine.on_wait = gpu_trace.tell_wait
        self._patches = Patches()
        self._backend = early.Backend()

    def install(self) -> None:
        """``device="cuda"`` means this device from now on."""
        state.switch(self.device)
        self._autocast = Autocast()
        self._swap = torch.__future__.get_swap_module_params_on_conversion()
        try:
            self._install()
        except BaseException:
            self.remove()
            raise

    def _install(self) -> None:
        device, patches = self.device, self._patches
        self._backend.install()
        bindings.install(patches, device)
        for part in _PARTS:
            part.install(patches)
        clock.install(patches, device)
        self._autocast.install(patches)
        set_device(ObservedDevice(device))
        patches.set(torch, "Generator", Generator)
        patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
        patches.append(foreach_types, CudaTensor)
        torch.__future__.set_swap_module_params_on_conversion(True)
        early.install(patches)

    def remove(self) -> None:
        """Put everything back. The device keeps its memory, for the tensors that live on."""
        self._autocast.remove()
        self._patches.undo()
        self._backend.remove()
        set_device(None)
        state.switch(None)
        torch.__future__.set_swap_module_params_on_conversion(self._swap)
