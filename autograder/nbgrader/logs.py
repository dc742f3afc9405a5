"""nbgrader's log lines hold file names and errors that learners chose: a terminal acts on nothing in them."""

import logging
import sys
import traceback
from types import TracebackType

from autograder.core.printable import on_terminal


class PrintableRecord(logging.LogRecord):
    """A record whose message and traceback spell out escapes, bidirectional marks and carriage returns."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = _told(*self.exc_info).rstrip("\n")

    def getMessage(self) -> str:
        return on_terminal(super().getMessage())


def make_printable() -> None:
    """Of every record of this process from now on, as nbgrader builds its handlers anew with each application, and of what ends it."""
    logging.setLogRecordFactory(PrintableRecord)
    sys.excepthook = lambda *raised: print(_told(*raised), end="", file=sys.stderr)


def _told(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> str:
    return on_terminal("".join(traceback.format_exception(kind, error, place)))
