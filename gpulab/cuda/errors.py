"""What the virtual device says when it cannot answer."""

from collections.abc import Callable


class NotModelled(NotImplementedError, AttributeError):
    """The virtual device has no model of this; a real GPU would answer.

    It is an AttributeError too, so that ``hasattr`` on what is missing is False.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not modelled by the virtual CUDA device: run it on a real GPU")


def refusing(what: str) -> Callable:
    """A function that says so, whatever it is called with."""

    def missing(*args, **kwargs):
        raise NotModelled(what)

    return missing


class DeviceIsOff(RuntimeError):
    """A tensor outlived the virtual device that it lives on."""

    def __init__(self) -> None:
        super().__init__(
            "this tensor lives on a virtual CUDA device that is switched off: call gpulab.cuda.use() and make it again"
        )


class GhostHasNoValues(RuntimeError):
    """The program asked a ghost tensor for a value."""

    def __init__(self) -> None:
        super().__init__(
            "a tensor on a ghost card has a shape and no values, so nothing of it can come to the "
            "host: leave the reading out, or use a virtual card"
        )


class MachineTooSmall(MemoryError):
    """The card has room for the tensor; the memory of this machine, which stands for it, has not."""

    def __init__(self) -> None:
        super().__init__(
            "the card has room for this tensor, but this machine has not: make it smaller, or use a "
            "ghost card (gpulab.cuda.use('ghost')), whose tensors have shapes and no values"
        )

    @classmethod
    def raise_if_that_is(cls, error: RuntimeError) -> None:
        """Raise this instead of ``error`` when the host's allocator is what failed."""
        if "DefaultCPUAllocator" in str(error):
            raise cls() from error
