"""``gpulab-mark views.ipynb`` where points count: the course's marking service runs the hidden tests."""

import argparse
import os
import sys
import webbrowser
from pathlib import Path

from autograder.client import token
from autograder.client.sent import sent
from autograder.client.service import CannotAsk, Service, UnknownToken
from autograder.core.marks import Marks
from autograder.core.printable import on_terminal, say
from autograder.core.screen import columns, has_screen

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
    except CannotAsk as why:
        return _refused(str(why))
    except KeyboardInterrupt:
        return _refused(
            "You interrupted it. If the notebook had been sent, the same line shows its marks and uses no further try."
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpulab-mark", description=ABOUT)
    parser.add_argument(
        "notebook", type=Path, help="the chapter's notebook with your code in it, saved; it is only read"
    )
    parser.add_argument("--no-browser", action="store_true", help="name the page, do not open it")
    parser.add_argument("--page", type=Path, help="where to write the page (default: beside the notebook)")
    parser.add_argument("--new-token", action="store_true", help="ask for your token again, and keep the new one")
    return parser


def _mark(options: argparse.Namespace) -> int:
    notebook, written = sent(options.notebook), _place(options)
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
    try:
        written.write_text(found["page"], "utf-8", "backslashreplace")
    except OSError as error:
        raise CannotAsk(
            f"The page cannot be written to {written}: {error.strerror}. The same line with --page uses no further try."
        ) from None
    _report(marks, max(found["of"] - found["used"], 0), found["of"], written)
    if not options.no_browser and has_screen():
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


def _place(options: argparse.Namespace) -> Path:
    """Where the page goes. Raises CannotAsk where nothing can be written, before a try is used."""
    path = (options.page or options.notebook.with_name(f"{options.notebook.stem}-marked.html")).resolve()
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CannotAsk(f"The page cannot be written to {path}: name another place with --page.")
    return path


def _report(marks: Marks, left: int, of: int, written: Path) -> None:
    for line in (*map(str, marks.of), *marks.summary(columns())):
        say(line)
    say(f"Tries left: {left} of {of}")
    say(f"What each point was lost for, what to read again, and hints: {written}")


def _refused(why: str) -> int:
    print(on_terminal(why), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
