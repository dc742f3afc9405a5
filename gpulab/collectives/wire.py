"""Messages between a rank, the broker and who watches over both: JSON with bytes behind it.

Nothing is unpickled here. A head says how long the two parts are; what is longer than may be is refused
before memory is taken for it.
"""

import json
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence

_HEAD = struct.Struct("!IQ")
_LONGEST_META = 1 << 20
_LONGEST_PAYLOAD = 1 << 34
_AT_ONCE = 1 << 20


class BadMessage(ValueError):
    """What came is no message."""


class Closed(ConnectionError):
    """The other end is gone."""


Message = tuple[dict, bytearray]


def packed(meta: dict, payload: Sequence = ()) -> list[memoryview]:
    """The parts of a message, in order. payload: buffers, which are not copied."""
    text = json.dumps(meta).encode()
    views = (memoryview(part) for part in payload)
    parts = [view.cast("B") for view in views if view.nbytes]
    return [memoryview(_HEAD.pack(len(text), sum(map(len, parts))) + text), *parts]


def _lengths(head: bytes | bytearray) -> tuple[int, int]:
    meta, payload = _HEAD.unpack(head)
    if meta > _LONGEST_META or payload > _LONGEST_PAYLOAD:
        raise BadMessage(f"a message of {meta} and {payload} bytes")
    return meta, payload


def _read(text: bytes | bytearray) -> dict:
    try:
        meta = json.loads(text)
    except ValueError as error:
        raise BadMessage(str(error)) from None
    if not isinstance(meta, dict):
        raise BadMessage("a message that is no dictionary")
    return meta


class Wire:
    """A rank's end: it waits for what it reads, and for room for what it writes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(True)

    def tell(self, meta: dict, payload: Sequence = ()) -> None:
        """Raises Closed."""
        try:
            for part in packed(meta, payload):
                self.sock.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def hear(self) -> Message:
        """The next message. Raises Closed."""
        meta, payload = _lengths(self._exactly(_HEAD.size))
        return _read(self._exactly(meta)), self._exactly(payload)

    def _exactly(self, count: int) -> bytearray:
        got = bytearray(count)
        view = memoryview(got)
        while len(view):
            try:
                read = self.sock.recv_into(view)
            except ConnectionResetError:
                read = 0
            if not read:
                raise Closed
            view = view[read:]
        return got


class FramedSocket:
    """An end that waits for nothing: messages come out when they are whole, and go in when there is room."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)
        self.over = False
        self._out: deque[memoryview] = deque()
        self._part, self._room = "head", memoryview(bytearray(_HEAD.size))
        self._meta: dict = {}
        self._payload_bytes = 0

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def has_more_to_send(self) -> bool:
        return bool(self._out)

    def put(self, meta: dict, payload: Sequence = ()) -> None:
        """To be sent, now or when there is room."""
        if not self.over:
            self._out.extend(packed(meta, payload))
            self.send()

    def send(self) -> None:
        """Send what there is room for."""
        try:
            while self._out:
                sent = self.sock.send(self._out[0])
                rest = self._out.popleft()[sent:]
                if len(rest):
                    self._out.appendleft(rest)
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()

    def messages(self, all_of_them: bool = False) -> Iterator[Message]:
        """Those that have come whole; ``over`` is set when the other end is gone. Raises BadMessage.

        all_of_them: also when that is so much that others would wait.
        """
        taken = 0
        while taken < _AT_ONCE or all_of_them or self._part != "head":
            if len(self._room):
                try:
                    got = self.sock.recv_into(self._room)
                except BlockingIOError:
                    return
                except OSError:
                    got = 0
                if not got:
                    self.over = True
                    return
                taken += got
                self._room = self._room[got:]
            if not len(self._room):
                yield from self._part_is_whole()

    def _part_is_whole(self) -> Iterator[Message]:
        whole = self._room.obj
        if self._part == "head":
            meta, self._payload_bytes = _lengths(whole)
            self._part, self._room = "meta", memoryview(bytearray(meta))
        elif self._part == "meta":
            self._meta = _read(whole)
            self._part, self._room = "payload", memoryview(bytearray(self._payload_bytes))
        else:
            self._part, self._room = "head", memoryview(bytearray(_HEAD.size))
            yield self._meta, whole

    def close(self) -> None:
        self.sock.close()
