"""Starts the marking service, and stops it at a signal."""

import argparse
import asyncio
import logging
import signal
import ssl
from pathlib import Path

from tornado.netutil import bind_sockets

from autograder.client.sent import MAX_BYTES
from autograder.core.edition import LOCAL
from autograder.core.printable import say
from autograder.marking.app import app
from autograder.marking.limits import Limits, limits
from autograder.marking.queue import Queue
from autograder.marking.records import FOLDER, Records
from autograder.marking.server import BoundedServer
from autograder.marking.tokens import SECRET, secret_of
from autograder.sandbox import sandbox
from autograder.selfcheck.chapters import chapters_in_the_book


def serve(course: Path, options: argparse.Namespace) -> None:
    """Until SIGINT or SIGTERM. Raises ValueError and OSError where it cannot."""
    if not (course / FOLDER / SECRET).exists():
        raise ValueError(f"Nobody has a token for {course}: python -m autograder marking tokens writes them.")
    if problem := sandbox.problem():
        raise ValueError(f"Learners' code runs in a sandbox, and {problem}.")
    tls = _tls(options)
    if tls is None and options.host not in LOCAL:
        raise ValueError(f"--host {options.host} needs --certificate: learners' tokens would travel in plain text.")
    known = chapters_in_the_book()
    allowed = limits(options.tries, [chapter.name for chapter in known])
    logging.basicConfig(format="%(asctime)s  %(message)s", datefmt="%Y-%m-%d %H:%M")
    asyncio.run(_until_stopped(Queue(Records(course / FOLDER), allowed, known, options.jobs), tls, options))


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if not options.certificate:
        if options.key:
            raise ValueError("--key is that of a --certificate.")
        return None
    for path in filter(None, (options.certificate, options.key)):
        path.open("rb").close()  # OpenSSL does not say which it cannot read
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options.certificate, options.key)
    return context


async def _until_stopped(queue: Queue, tls: ssl.SSLContext | None, options: argparse.Namespace) -> None:
    stopped, folder = asyncio.Event(), queue.records.folder
    server = BoundedServer(app(queue, secret_of(folder)), max_body_size=MAX_BYTES, ssl_options=tls)
    try:
        sockets = bind_sockets(options.port, options.host)
    except OSError as error:
        raise ValueError(f"Nothing can listen at {options.host}, port {options.port}: {error.strerror}.") from None
    server.add_sockets(sockets)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    where = f"{'https' if tls else 'http'}://{options.host}:{sockets[0].getsockname()[1]}"
    say(f"Marking at {where}, {options.jobs} at once. Tries: {_said(queue.limits)}. Records: {folder}")
    await stopped.wait()
    server.stop()
    await queue.close()


def _said(allowed: Limits) -> str:
    return ", ".join([str(allowed.usual), *(f"{name} {count}" for name, count in allowed.by_chapter.items())])
