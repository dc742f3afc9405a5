"""PyTorch's GPU trace hooks (``torch.cuda._gpu_trace``), which its stream sanitizer listens to."""

from gpulab.compat.cuda import ACTIVATE_GPU_TRACE, gpu_trace
from gpulab.cuda.device.patches import Patches

_REGISTRIES = {
    name.removesuffix("Callbacks"): hooks for name, hooks in vars(gpu_trace).items() if name.endswith("Callbacks")
}


def install(patches: Patches) -> None:
    """Its switch: the hooks are called whenever somebody has registered."""
    patches.set(*ACTIVATE_GPU_TRACE, lambda: None)


def handle(number: int) -> int:
    """What stands for the cudaStream_t of queue ``number``; 0 is the default stream, as on a card."""
    return number * 0x1000


def tell(kind: str, *facts) -> None:
    """Call the hooks of this kind: ``EventRecord``, ``StreamSynchronization``, ..."""
    registry = _REGISTRIES[kind]
    if registry.callback_list:
        registry.fire_callbacks(*facts)


def tell_wait(reason: str, number: int | None) -> None:
    """The host waits: for the device, an event, or queue ``number``."""
    if reason == "cudaDeviceSynchronize":
        tell("DeviceSynchronization")
    elif number is not None:
        tell("StreamSynchronization", handle(number))
