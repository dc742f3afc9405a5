"""What a Triton kernel is told besides :mod:`gpulab.kernels.errors`."""

from gpulab.kernels.errors import KernelError
from gpulab.observe.records import SourceLine


class DeviceAssertion(KernelError, AssertionError):
    """``tl.device_assert`` failed."""

    def __init__(self, line: SourceLine, program: tuple[int, ...], message: str) -> None:
        place = f"{line.function}, line {line.number}: {line.text}"
        super().__init__(f"device_assert failed in program {program}: {message}\n  {place}")


class EnoughAccesses(Exception):
    """A program that is sampled has made as many accesses as were asked for."""
