"""``torch.cuda.nvtx``: ranges nest and are counted; no profiler is there to read them."""

from gpulab.compat.cuda import NVTX
from gpulab.cuda.device.patches import Patches


class _Ranges:
    """What PyTorch's Python expects of ``torch._C._nvtx``."""

    def __init__(self) -> None:
        self._depth = 0
        self._started = 0

    def rangePushA(self, message: str) -> int:
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        self._depth -= 1
        return self._depth

    def rangeStartA(self, message: str) -> int:
        self._started += 1
        return self._started

    def rangeEnd(self, number: int) -> None:
        pass

    def markA(self, message: str) -> None:
        pass


def install(patches: Patches) -> None:
    patches.set(*NVTX, _Ranges())
