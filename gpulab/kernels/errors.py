"""What a kernel written in Python is told when it cannot be compiled, launched or go on."""

import warnings

from gpulab.observe.records import SourceLine


class KernelError(Exception):
    """Anything that is wrong with a kernel or its launch."""


class CompileError(KernelError):
    """The kernel's source is outside the language that Numba compiles for a GPU.

    The message names the reason and the line; ``line`` is that :class:`SourceLine`.
    """

    def __init__(self, reason: str, line: SourceLine | None = None) -> None:
        where = "" if line is None else f"\n  {line.function}, line {line.number}: {line.text}"
        super().__init__(f"{reason}{where}")
        self.line = line


class LaunchError(KernelError):
    """CUDA refuses the launch: its grid, its block, its shared memory or its arguments."""


class MemoryFault(KernelError):
    """A thread used an element that is not there, or that nobody had written.

    ``fault`` is the :class:`gpulab.observe.Fault`. Inside ``observe()`` it is recorded instead.
    """

    def __init__(self, fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class EndlessLoop(KernelError):
    """A loop of the kernel ran longer than any loop of this course needs."""


class RaceWarning(UserWarning):
    """Two threads used one element with no barrier or atomic between them."""


# A race is news every time, not once for each line that launches.
warnings.simplefilter("always", RaceWarning)
