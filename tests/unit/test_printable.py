"""What a learner chose is printed as text: a terminal acts on nothing in it."""

import logging
import subprocess
import sys

import pytest

from autograder.core.printable import printable, visible
from autograder.nbgrader.logs import PrintableRecord

CLEAR, REVERSED = "\x1b[2J", "\u202e"


def test_line_breaks_stay_in_a_text_and_not_in_a_name():
    assert visible(f"a\n{CLEAR}{REVERSED}") == "a\n\\x1b[2J\\u202e"
    assert printable(f"a\n{CLEAR}") == r"a\n\x1b[2J"


def test_letters_of_the_world_stay():
    assert visible("Jürgen 王芳 é") == printable("Jürgen 王芳 é") == "Jürgen 王芳 é"


@pytest.fixture
def printable_log(caplog):
    """A logger whose records are those of nbgrader's commands."""
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(PrintableRecord)
    yield caplog
    logging.setLogRecordFactory(before)


def test_a_log_line_and_its_traceback_hold_no_escape(printable_log):
    try:
        raise ValueError(CLEAR)
    except ValueError:
        logging.getLogger("x").exception("Copying %s\r", f"{CLEAR}{REVERSED}.txt")
    assert r"Copying \x1b[2J\u202e.txt\r" in printable_log.text
    assert "\x1b" not in printable_log.text and r"ValueError: \x1b[2J" in printable_log.text


def test_what_ends_a_command_of_nbgraders_holds_none():
    raises = f"from autograder.nbgrader.logs import make_printable; make_printable(); raise OSError({CLEAR!r})"
    done = subprocess.run([sys.executable, "-c", raises], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.endswith("OSError: \\x1b[2J\n") and "\x1b" not in done.stderr
