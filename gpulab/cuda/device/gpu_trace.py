"""PyTorch's GPU trace hooks (``torch.cuda._gpu_trace``), which its stream sanitizer listens to."""

from gpulab.compat.cuda import ACTIVATE_GPU_TRACE, gpu_trace
from gpulab.cuda.device.patches import Patches


def install(patches: Patches) -> None:
    """Its switch: the hooks are called whenever somebody has registered."""
    patches.set(*ACTIVATE_GPU_TRACE, lambda: None)


def handle(number: int) -> int:
    """What stands for the cudaStream_t of queue ``number``; 0 is the default stream, as on a card."""
    return number * 0x1000


def tell(kind: str, *facts) -> None:
    """Call the hooks of this kind: ``EventRecord``, ``StreamSynchronization``, ..."""
    if listeners(kind):
        getattr(gpu_trace, f"{kind}Callbacks").fire_callbacks(*facts)


def listeners(kind: str) -> list:
    """The hooks of this kind, now and later."""
    return getattr(gpu_trace, f"{kind}Callbacks").callback_list


def tell_wait(reason: str, number: int | None) -> None:
    """The host waits: for the device, an event, or queue ``number``."""
    if reason == "cudaDeviceSynchronize":
        tell("DeviceSynchronization")
    elif number is not None:
        tell("StreamSynchronization", handle(number))
