"""An HTTP server that keeps room for others: so many connections, and none that says nothing."""

import resource

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

MOST_CONNECTIONS = 500
SECONDS_IDLE, SECONDS_OF_A_BODY = 15, 60
_DESCRIPTORS = 4 * MOST_CONNECTIONS


class BoundedServer(HTTPServer):
    """Closes what comes beyond ``MOST_CONNECTIONS``. Tornado itself takes them until it has no descriptors left."""

    def initialize(self, *arguments, **settings) -> None:
        times = {"idle_connection_timeout": SECONDS_IDLE, "body_timeout": SECONDS_OF_A_BODY}
        super().initialize(*arguments, **times, **settings)
        _make_room()
        self._open = 0

    def handle_stream(self, stream: IOStream, address: tuple) -> None:
        if self._open >= MOST_CONNECTIONS:
            stream.close()
            return
        self._open += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self._open -= 1
        super().on_close(server_conn)


def _make_room() -> None:
    """Of descriptors, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
