"""The virtual device as ``gpulab.observe`` sees it."""

import torch

from gpulab.cuda.device.dispatch import references_of_a_temporary
from gpulab.cuda.device.memory import extent
from gpulab.observe.device import DeviceLog

Tensor = torch.Tensor


class ObservedDevice:
    """Writes what the machine does into the logs of the observations under way."""

    def __init__(self, device) -> None:
        self._device = device
        self.description = f"virtual {device.card.name}, modelled"

    def start(self, log: DeviceLog) -> None:
        logs = self._device.machine.logs
        logs.append(log)
        references_of_a_temporary(sum(isinstance(log, DeviceLog) for log in logs))

    def stop(self, log: DeviceLog) -> None:
        self._device.pinned.look()
        self._device.machine.logs.remove(log)

    def host_operation(self, name: str, tensors: list[Tensor]) -> None:
        """Tell the machine when the host touches pinned memory that a copy may be using.

        Raises NotModelled for a host tensor over device memory: nothing on a card makes one.
        """
        for tensor in tensors:
            self._device.memory.refuse_on_host(tensor, name)
        if not self._device.pinned:
            return
        if name == "aten.copy_" and _is_the_copy_engines(*tensors[:2]):
            self._device.pinned.rewritten(tensors[0])
            return
        # Alone among a host operation's tensors, the first of an in-place one is written.
        in_place = name.endswith("_")
        for position, tensor in enumerate(tensors):
            if not tensor.is_cuda and not _is_view_or_transfer(name):
                self._access(name, tensor, in_place and position == 0)

    def _access(self, name: str, tensor: Tensor, writes: bool) -> None:
        accesses = self._device.pinned.accesses_of(tensor)
        if accesses is not None:
            self._device.machine.host_access(accesses, writes, name, extent(tensor))
        if writes:
            self._device.pinned.rewritten(tensor)


_LOOKS_ONLY = {
    "aten.view", "aten.slice", "aten.select", "aten.detach", "aten.alias", "aten.t", "aten.permute",
    "aten.transpose", "aten.expand", "aten.unsqueeze", "aten.squeeze", "aten._unsafe_view",
    "aten.split", "aten.unbind", "aten.as_strided", "aten.lift_fresh", "aten.empty_like",
    "aten._reshape_alias", "aten.chunk", "aten.narrow", "aten.unfold", "aten.record_stream",
}  # fmt: skip


def _is_the_copy_engines(target: Tensor, source: Tensor) -> bool:
    """Whether the machine itself is told which of the two's bytes this copy uses, in its stream's order."""
    alike = target.dtype == source.dtype and target.shape == source.shape
    return target.is_cuda != source.is_cuda and alike and target.is_contiguous() and source.is_contiguous()


def _is_view_or_transfer(name: str) -> bool:
    return name in _LOOKS_ONLY
