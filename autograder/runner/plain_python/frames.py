"""Messages of plain data over a pipe, each behind its length."""

import marshal
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")


def send(pipe: BinaryIO, message: Any) -> None:
    data = marshal.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Raises EOFError where the other side has ended."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return marshal.loads(pipe.read(*_LENGTH.unpack(head)))
