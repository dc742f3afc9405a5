"""What may cross between the learner's process and the referee: plain data and raw bytes.

A message is one msgpack document: ``storages``, a list of raw byte strings, and ``body``, a
tree of None, bool, int, float, str, list and dict whose tensors point into the storages by
index. Views of one storage stay views of one storage on the other side. Nothing is ever
unpickled and no object of the sender's choosing is built.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import torch

from autograder.protocol.limits import MAX_BODY_BYTES, MAX_MESSAGE_BYTES

MAX_STORAGES = 4096
MAX_DEPTH = 16
MAX_SHOWN_BYTES = 2 * MAX_MESSAGE_BYTES
"""Bytes that all tensors of a message show together: a view may show an element more than once."""
_TENSOR = 1
_OPAQUE = 2
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
        torch.complex64, torch.complex128,
    )
}  # fmt: skip


class WireError(ValueError):
    """A message that is not what this format allows."""


class Opaque(msgspec.Struct, frozen=True):
    """Stands for a value of a type that may not cross; only the type's name does."""

    type_name: str


class _TensorHeader(msgspec.Struct, forbid_unknown_fields=True):
    storage: int
    dtype: str
    shape: list[int]
    stride: list[int]
    offset: int
    requires_grad: bool


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    storages: Annotated[list[bytes], msgspec.Meta(max_length=MAX_STORAGES)]
    body: msgspec.Raw


def encode(body: Any) -> bytes:
    """``body`` as bytes. Tensors cross as raw storage, strangers as :class:`Opaque`.

    Raises WireError when the message would be larger than MAX_MESSAGE_BYTES, or what is not
    tensors larger than MAX_BODY_BYTES.
    """
    sender = _Sender()
    plain = msgspec.msgpack.encode(sender.plain(body))
    _require_small(plain, sender.storages)
    message = _Message(storages=sender.storages, body=msgspec.Raw(plain))
    data = msgspec.msgpack.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise WireError(f"{len(data)} bytes are more than the {MAX_MESSAGE_BYTES} that may cross")
    return data


def decode(data: bytes) -> Any:
    """The tree that :func:`encode` was given, tensors rebuilt with their layout and sharing.

    Raises WireError on anything malformed, too large, too deep or out of its storage.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise WireError(f"{len(data)} bytes are more than the {MAX_MESSAGE_BYTES} that may cross")
    try:
        message = msgspec.msgpack.decode(data, type=_Message)
        _require_small(bytes(message.body), message.storages)
        body = msgspec.msgpack.decode(message.body, ext_hook=msgspec.msgpack.Ext)
        return _Receiver(message.storages).rebuilt(body)
    except WireError:
        raise
    except (ValueError, RecursionError, RuntimeError, OverflowError, TypeError) as error:
        raise WireError(f"not a message: {error}") from None


def _require_small(body: bytes, storages: list[bytes]) -> None:
    if len(body) > MAX_BODY_BYTES:
        raise WireError(f"{len(body)} bytes that are no tensor's are more than the {MAX_BODY_BYTES} that may cross")
    if len(storages) > MAX_STORAGES:
        raise WireError(f"{len(storages)} storages are more than the {MAX_STORAGES} that may cross")


class _Sender:
    """Turns a tree into plain data, each storage once."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []
        self._index: dict[int, int] = {}
        self._bytes = 0
        self._shown = _Shown()

    def plain(self, value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise WireError(f"nested deeper than {MAX_DEPTH}")
        if value is None or type(value) in (bool, float, str):
            return value
        if type(value) is int:
            return value if -(2**63) <= value < 2**64 else self._opaque(value)
        if type(value) in (list, tuple):
            return [self.plain(item, depth + 1) for item in value]
        if type(value) is dict:
            return {str(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, torch.Size):
            return [int(size) for size in value]
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            return self._tensor(value)
        return self._opaque(value)

    def _opaque(self, value: Any) -> msgspec.msgpack.Ext:
        name = f"{type(value).__module__}.{type(value).__qualname__}"[:200]
        return msgspec.msgpack.Ext(_OPAQUE, name.removeprefix("builtins.").encode())

    def _tensor(self, tensor: torch.Tensor) -> msgspec.msgpack.Ext:
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in _DTYPES or tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return msgspec.msgpack.Ext(_OPAQUE, f"{tensor.device} {tensor.layout} {name} tensor".encode())
        self._shown.add(tensor.shape, tensor.dtype)
        plain = tensor.detach().resolve_conj().resolve_neg()
        header = _TensorHeader(
            storage=self._storage_of(plain),
            dtype=name,
            shape=list(plain.shape),
            stride=list(plain.stride()),
            offset=plain.storage_offset(),
            requires_grad=tensor.requires_grad,
        )
        return msgspec.msgpack.Ext(_TENSOR, msgspec.msgpack.encode(header))

    def _storage_of(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._index:
            self._bytes += storage.nbytes()
            if self._bytes > MAX_MESSAGE_BYTES:
                raise WireError(f"tensors of more than {MAX_MESSAGE_BYTES} bytes may not cross")
            self._index[storage._cdata] = len(self.storages)
            self.storages.append(_raw(storage))
        return self._index[storage._cdata]


def _raw(storage: torch.UntypedStorage) -> bytes:
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes()


def _storage(raw: bytes) -> torch.UntypedStorage:
    if not raw:
        return torch.UntypedStorage(0)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).untyped_storage()


class _Shown:
    """Counts the bytes that the tensors of a message show, whatever their storages hold."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        self._bytes += math.prod(shape) * dtype.itemsize
        if self._bytes > MAX_SHOWN_BYTES:
            raise WireError(f"tensors that show more than {MAX_SHOWN_BYTES} bytes may not cross")


class _Receiver:
    """Builds the tree of one message."""

    def __init__(self, storages: list[bytes]) -> None:
        self._storages = [_storage(raw) for raw in storages]
        self._shown = _Shown()

    def rebuilt(self, value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise WireError(f"nested deeper than {MAX_DEPTH}")
        if isinstance(value, list):
            return [self.rebuilt(item, depth + 1) for item in value]
        if isinstance(value, dict):
            if not all(type(key) is str for key in value):
                raise WireError("a key that is no string")
            return {key: self.rebuilt(item, depth + 1) for key, item in value.items()}
        if isinstance(value, msgspec.msgpack.Ext):
            return self._stranger(value)
        if value is None or type(value) in (bool, int, float, str):
            return value
        raise WireError(f"a {type(value).__name__} may not cross")

    def _stranger(self, value: msgspec.msgpack.Ext) -> Any:
        if value.code == _OPAQUE:
            return Opaque(bytes(value.data).decode("utf-8", "replace")[:200])
        if value.code != _TENSOR:
            raise WireError(f"extension {value.code} is unknown")
        return self._tensor(msgspec.msgpack.decode(value.data, type=_TensorHeader))

    def _tensor(self, header: _TensorHeader) -> torch.Tensor:
        dtype = _DTYPES.get(header.dtype)
        if dtype is None:
            raise WireError(f"dtype {header.dtype!r} is unknown")
        if not 0 <= header.storage < len(self._storages):
            raise WireError(f"storage {header.storage} of {len(self._storages)}")
        if len(header.shape) != len(header.stride) or len(header.shape) > 64:
            raise WireError("shape and stride do not fit each other")
        if header.offset < 0 or min([*header.shape, *header.stride, 0]) < 0:
            raise WireError("a negative size, stride or offset")
        storage = self._storages[header.storage]
        _require_inside(header, storage.nbytes() // dtype.itemsize)
        self._shown.add(header.shape, dtype)
        tensor = torch.empty(0, dtype=dtype).set_(storage, header.offset, header.shape, header.stride)
        floating = dtype.is_floating_point or dtype.is_complex
        return tensor.requires_grad_() if header.requires_grad and floating else tensor


def _require_inside(header: _TensorHeader, elements: int) -> None:
    if 0 in header.shape:
        return
    last = header.offset + sum((n - 1) * s for n, s in zip(header.shape, header.stride))
    if last >= elements:
        raise WireError(f"element {last} of a storage of {elements}")
