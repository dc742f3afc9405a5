"""The options of ``python -m autograder marking``; :mod:`autograder.marking.command` does what they say."""

import argparse
from pathlib import Path

from autograder.cli.numbers import at_least


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
    serve.add_argument("--jobs", type=at_least(1), default=jobs, help="notebooks at once (default: one a core)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    serve.add_argument("--port", type=at_least(0, 65535), default=8091, help="(default: 8091; 0: any that is free)")
    serve.add_argument("--certificate", type=Path, help="PEM file, for HTTPS without a proxy before it")
    serve.add_argument("--key", type=Path, help="PEM file of the certificate's key, where that does not hold it")
    tokens = does.add_parser("tokens", help="write a learner's token for the service in each line, as CSV")
    tokens.add_argument("students", nargs="*", metavar="STUDENT", help="(default: all of the gradebook)")
    tokens.add_argument("--to", type=Path, metavar="FILE", help="a file that only you can read (default: the terminal)")
    does.add_parser(
        "list", help="a line for each try: when, whose, what came of it, and the folder to delete to give it back"
    )
