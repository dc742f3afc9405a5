"""The host's side of ``numba.cuda``: arrays on the device, copies, streams.

With a card, virtual or real, an array lies there as a tensor; without one it is memory of its own
on the host, so that forgetting a copy shows.
"""

from contextlib import contextmanager

import numpy as np
import torch

from gpulab.kernels.errors import LaunchError
from gpulab.kernels.simt.values import poison


class DeviceArray:
    """``numba.cuda``'s device array over a tensor, ``tensor``. Its dtype is NumPy's."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.shape, self.ndim, self.size = tuple(tensor.shape), tensor.ndim, tensor.numel()
        self.dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
        self.nbytes = self.size * self.dtype.itemsize
        self.strides = tuple(n * self.dtype.itemsize for n in tensor.stride())

    def copy_to_host(self, ary: np.ndarray | None = None, stream=0) -> np.ndarray:
        """A NumPy array with what the device holds now, or ``ary`` filled with it."""
        with _on(stream):
            found = self.tensor.detach().cpu().numpy()
        if ary is None:
            return found.copy()
        if ary.shape != found.shape or ary.dtype != found.dtype:
            raise ValueError(f"{found.dtype}{found.shape} into {ary.dtype}{ary.shape}")
        np.copyto(ary, found)
        return ary

    def copy_to_device(self, ary, stream=0) -> None:
        """Fill it from an array of the host or of the device, of the same shape and dtype."""
        source = ary.tensor if isinstance(ary, DeviceArray) else torch.from_numpy(np.ascontiguousarray(ary))
        if source.shape != self.tensor.shape or source.dtype != self.tensor.dtype:
            raise ValueError(f"{source.dtype}{tuple(source.shape)} into {self.dtype}{self.shape}")
        with _on(stream):
            self.tensor.copy_(source)

    def reshape(self, *shape) -> "DeviceArray":
        return DeviceArray(self.tensor.reshape(*shape))

    def ravel(self) -> "DeviceArray":
        return DeviceArray(self.tensor.reshape(-1))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index):
        """A part of it, on the device; a number when the index names one element."""
        found = self.tensor[index]
        return DeviceArray(found) if found.ndim else found.cpu().numpy()[()]

    def __setitem__(self, index, value) -> None:
        value = value.tensor if isinstance(value, DeviceArray) else value
        self.tensor[index] = torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        found = self.copy_to_host()
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return f"<device array of {self.dtype}, shape {self.shape}>"


class Stream:
    """``numba.cuda.stream()``: a stream of the card; without a card it means nothing."""

    def __init__(self) -> None:
        self.torch = torch.cuda.Stream() if torch.cuda.is_available() else None

    def synchronize(self) -> None:
        if self.torch is not None:
            self.torch.synchronize()

    @contextmanager
    def auto_synchronize(self):
        """Wait for the stream at the end of the ``with`` block."""
        yield self
        self.synchronize()


def stream_of(given):
    """A stream as the launch's other side takes it: torch's own, or None."""
    return given.torch if isinstance(given, Stream) else given


@contextmanager
def _on(given):
    inner = stream_of(given)
    if not isinstance(inner, torch.cuda.Stream):
        yield
        return
    with torch.cuda.stream(inner):
        yield


def tensors_of(value):
    """A launch's argument with tensors in the place of device arrays, in tuples too."""
    if isinstance(value, DeviceArray):
        return value.tensor
    if isinstance(value, tuple):
        parts = [tensors_of(part) for part in value]
        if all(new is old for new, old in zip(parts, value)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _place() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def to_device(obj, stream=0, copy: bool = True, to: DeviceArray | None = None) -> DeviceArray:
    """A copy of an array of the host on the device, or ``to`` filled with it."""
    if isinstance(obj, DeviceArray):
        return obj
    if to is not None:
        to.copy_to_device(obj, stream)
        return to
    source = obj.detach() if isinstance(obj, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(obj))
    with _on(stream):
        return DeviceArray(source.clone() if _place() == "cpu" else source.to("cuda"))


def device_array(shape, dtype=np.float64, strides=None, order: str = "C", stream=0) -> DeviceArray:
    """Memory of the device that nobody has written. Raises LaunchError for strides and Fortran order."""
    if strides is not None or order != "C":
        raise LaunchError("device_array makes arrays in C order, without strides of their own")
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    tensor = torch.empty(shape, dtype=kind, device=_place())
    if _place() == "cpu":
        tensor.fill_(torch.from_numpy(np.array([poison(np.dtype(dtype))], dtype))[0])
    return DeviceArray(tensor)


def device_array_like(ary, stream=0) -> DeviceArray:
    """Unwritten memory of the device with the shape and dtype of ``ary``."""
    like = ary if isinstance(ary, DeviceArray) else np.asarray(ary)
    return device_array(like.shape, like.dtype)


def pinned_array(shape, dtype=np.float64, strides=None, order: str = "C") -> np.ndarray:
    """An array of the host; in pinned memory where there is a card."""
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    return torch.empty(shape, dtype=kind, pin_memory=_place() == "cuda").numpy()


def stream() -> Stream:
    """A new stream."""
    return Stream()


def default_stream() -> int:
    """The current stream of PyTorch, on which launches run."""
    return 0


def is_available() -> bool:
    """Whether there is a card, virtual or real. Kernels run without one too."""
    return torch.cuda.is_available()


def synchronize() -> None:
    """Wait for the device, as ``torch.cuda.synchronize``; nothing to do without one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
