"""Switches the virtual device on and off."""

import torch
from torch.optim.optimizer import _foreach_supported_types

from gpulab.cuda.device import (
    accelerator,
    bindings,
    clock,
    factories,
    graphs,
    methods,
    missing,
    nvtx,
    saving,
    state,
    streams,
)
from gpulab.cuda.device.autocast import Autocast
from gpulab.cuda.device.dispatch import references_of_a_temporary
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.randomness import Generator, default_generator
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.device.transfer import deliver
from gpulab.cuda.device.observed import ObservedDevice
from gpulab.cuda.machine.cards import Card
from gpulab.observe.device import set_device


class Installation:
    """A virtual device that is on, and what was replaced for it."""

    def __init__(self, card: Card, ghost: bool = False) -> None:
        self.device = state.VirtualDevice(card, ghost)
        self._patches = Patches()
        state.switch(self.device)
        try:
            self._install()
        except BaseException:
            self.remove()
            raise

    def _install(self) -> None:
        device, patches = self.device, self._patches
        # Now, since inside an operation the question cannot be put to PyTorch.
        references_of_a_temporary()
        device.generator = default_generator()
        device.machine.after_wait.append(lambda: device.undelivered and deliver(device))
        bindings.install(patches, device)
        graphs.install(patches)
        nvtx.install(patches)
        missing.install(patches)
        streams.install(patches)
        accelerator.install(patches)
        factories.install(patches)
        methods.install(patches)
        saving.install(patches)
        clock.install(patches, device)
        self._autocast = Autocast()
        self._autocast.install(patches)
        set_device(ObservedDevice(device))
        patches.set(torch, "Generator", Generator)
        patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
        patches.append(_foreach_supported_types, CudaTensor)
        self._swap = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)

    def remove(self) -> None:
        """Put everything back."""
        if hasattr(self, "_autocast"):
            self._autocast.remove()
        self._patches.undo()
        self.device.memory.release_all()
        set_device(None)
        state.switch(None)
        if hasattr(self, "_swap"):
            torch.__future__.set_swap_module_params_on_conversion(self._swap)
