"""Whether the other end of a ZeroMQ socket has hung up."""

import zmq


class Disconnects:
    """Hears of each connection of ``socket`` that ends, from now until :meth:`close`.

    ZeroMQ's I/O thread tells of it, and waits, with the monitor locked, for a reader and for room. So the reader outlives the
    monitor (``disable_monitor`` closes it first, and waits for ever where a connection ends just then), and has room for any
    number of events: what is at the other end may hang up again and again.
    """

    def __init__(self, socket: zmq.Socket) -> None:
        address = f"inproc://disconnects-of-{id(socket)}"
        socket.monitor(address, zmq.EVENT_DISCONNECTED)
        self._socket = socket
        self._reader = socket.context.socket(zmq.PAIR, socket_class=zmq.Socket)
        self._reader.rcvhwm = 0
        self._reader.connect(address)

    @property
    def any(self) -> bool:
        return bool(self._reader.poll(0))

    def close(self) -> None:
        """Before ``socket`` is closed."""
        self._socket.monitor(None, 0)
        self._reader.close(linger=0)
