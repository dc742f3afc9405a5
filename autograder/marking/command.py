"""``python -m autograder marking``: the service of a graded course, and its learners' tokens."""

import argparse
import asyncio
import csv
import os
import signal
import ssl
import sys
from pathlib import Path

from autograder.core.edition import LOCAL
from autograder.core.layout import ROOT
from autograder.core.printable import say
from autograder.marking.records import Records
from autograder.marking.tokens import secret_of, token_of

FOLDER = "marking"
"""In the course folder."""


def add_options(parser: argparse.ArgumentParser, jobs: int) -> None:
    does = parser.add_subparsers(dest="does", required=True)
    serve = does.add_parser("serve", help="run hidden tests on the notebooks that learners send")
    serve.add_argument(
        "--tries",
        nargs="+",
        default=[],
        metavar="N",
        help="how often a learner may ask, for every chapter or as CHAPTER=N (default: 5)",
    )
    serve.add_argument("--jobs", type=int, default=jobs, help="notebooks at once (default: one a core)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    serve.add_argument("--port", type=int, default=8091, help="(default: 8091; 0: any that is free)")
    serve.add_argument("--certificate", type=Path, help="PEM file, for HTTPS without a proxy before it")
    serve.add_argument("--key", type=Path, help="PEM file of the certificate's key, where that does not hold it")
    tokens = does.add_parser("tokens", help="write a learner's token for the service in each line, as CSV")
    tokens.add_argument("students", nargs="*", metavar="STUDENT", help="(default: all of the gradebook)")
    tokens.add_argument("--to", type=Path, metavar="FILE", help="a file that only you can read (default: the terminal)")


def run(course: Path, options: argparse.Namespace) -> int:
    """Returns 2, with a sentence, where what was asked for cannot be done."""
    try:
        return _serve(course, options) if options.does == "serve" else _tokens(course, options)
    except (ValueError, OSError) as why:
        print(f"autograder marking: {why}", file=sys.stderr)
        return 2


def _tokens(course: Path, options: argparse.Namespace) -> int:
    from autograder.marking.gradebook import students_of

    secret, records = secret_of(course / FOLDER), Records(course / FOLDER)
    students = options.students or students_of(course)
    for student in students:
        records.of(student, "chapter", "digest")  # what cannot be kept gets no token
    file = open(os.open(options.to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") if options.to else sys.stdout
    table = csv.writer(file, lineterminator="\n")
    table.writerows([("id", "token"), *((student, token_of(student, secret)) for student in students)])
    if options.to:
        file.close()
        print(f"{len(students)} tokens: {options.to}")
    return 0


def _serve(course: Path, options: argparse.Namespace) -> int:
    from autograder.authoring.drafts import in_the_book
    from autograder.marking.limits import limits
    from autograder.sandbox import sandbox
    from autograder.selfcheck.chapters import chapters

    if problem := sandbox.problem():
        raise ValueError(f"Learners' code runs in a sandbox, and {problem}.")
    shown = in_the_book(ROOT / "exercises")
    known = [chapter for chapter in chapters() if chapter.name in shown]
    allowed = limits(options.tries, [chapter.name for chapter in known])
    tls = _tls(options)
    if tls is None and options.host not in LOCAL:
        raise ValueError(f"--host {options.host} needs --certificate: learners' tokens would travel in plain text.")
    asyncio.run(_until_stopped(course / FOLDER, known, allowed, tls, options))
    return 0


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if not options.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options.certificate, options.key)
    return context


async def _until_stopped(folder, known, allowed, tls, options) -> None:
    from tornado.httpserver import HTTPServer
    from tornado.netutil import bind_sockets

    from autograder.client.sent import MAX_BYTES
    from autograder.marking.app import app
    from autograder.marking.queue import Queue

    queue, stopped = Queue(Records(folder), allowed, known, options.jobs), asyncio.Event()
    server = HTTPServer(
        app(queue, secret_of(folder)),
        max_body_size=MAX_BYTES,
        body_timeout=60,
        idle_connection_timeout=60,
        ssl_options=tls,
    )
    sockets = bind_sockets(options.port, options.host)
    server.add_sockets(sockets)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    where = f"{'https' if tls else 'http'}://{options.host}:{sockets[0].getsockname()[1]}"
    tries = ", ".join([str(allowed.usual), *(f"{name} {count}" for name, count in allowed.by_chapter.items())])
    say(f"Marking at {where}, {options.jobs} at once. Tries: {tries}. Records: {folder}")
    await stopped.wait()
    server.stop()
    await queue.close()
