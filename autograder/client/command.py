"""``gpulab-mark views.ipynb`` where points count: the course's marking service runs the hidden tests."""

import argparse
import sys
import webbrowser
from pathlib import Path

from autograder.client import token
from autograder.client.cannot import CannotAsk, UnknownToken
from autograder.client.sent import sent
from autograder.client.service import Service
from autograder.core import screen
from autograder.core.marks import Marks
from autograder.core.printable import on_terminal, say

ADDRESS = Path(__file__).with_name("address.txt")
"""Where a wheel carries the address of the service."""
BEFORE = "the same notebook was marked before; this is its page, and no try was used"
ABOUT = (
    "Send a chapter's notebook to the course's marking service, which runs its hidden tests, and open a page that says "
    "what they found. Each notebook that is marked uses one of your tries; one that is sent again as it was uses none. "
    "The notebook alone is sent, without its outputs."
)


def main(arguments: list[str] | None = None) -> int:
    """Send, wait, print, write the page. Returns 0, however many points there are; 2 where nothing could be marked."""
    options = _parser().parse_args(arguments)
    try:
        return _mark(options)
    except UnknownToken as why:
        return _refused(f"{why} {token.where_it_is()}")
    except (CannotAsk, screen.NoPlace) as why:
        return _refused(str(why))
    except KeyboardInterrupt:
        return _refused(
            "You interrupted it. If the notebook had been sent, the same line shows its marks and uses no further try."
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpulab-mark", description=ABOUT)
    screen.add_options(parser)
    parser.add_argument("--new-token", action="store_true", help="ask for your token again, and keep the new one")
    return parser


def _mark(options: argparse.Namespace) -> int:
    notebook, written = sent(options.notebook), screen.place(options.notebook, options.page)
    own = token.token(options.new_token)
    service = Service(ADDRESS.read_text("utf-8").strip(), own)
    taken = service.send(notebook)
    token.keep(own)
    say(f"{taken['chapter']}: {BEFORE if taken['marked'] else f'sent to {service.address}'}")
    found = service.marks(taken["ask"], _Waits())
    try:
        marks = Marks.from_dict(found["marks"])
    except (LookupError, TypeError) as error:
        raise CannotAsk(
            "The service's answer cannot be read: install the gpulab-mark of your course's page."
        ) from error
    screen.write(written, found["page"])
    _report(marks, max(found["of"] - found["used"], 0), found["of"], written)
    if not options.no_browser and screen.has_screen():
        webbrowser.open(written.as_uri())
    return 0


class _Waits:
    """Says how many notebooks are before this one, when that changes."""

    def __init__(self) -> None:
        self._said: int | None = None

    def __call__(self, ahead: int) -> None:
        if ahead != self._said:
            say(f"Notebooks before yours: {ahead}" if ahead else "It is being marked.")
        self._said = ahead


def _report(marks: Marks, left: int, of: int, written: Path) -> None:
    for line in (*map(str, marks.of), *marks.summary(screen.columns())):
        say(line)
    say(f"Tries left: {left} of {of}")
    say(f"What each point was lost for, what to read again, and hints: {written}")


def _refused(why: str) -> int:
    print(on_terminal(why), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
