"""nbgrader's exchange, which takes names of courses, assignments and learners for patterns: here brackets in them are none."""

import glob
import os
import re
from datetime import datetime
from fnmatch import fnmatchcase
from types import SimpleNamespace

from nbgrader.apps import api
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseAssignment, collect, release_feedback
from nbgrader.exchange.default import list as listing
from traitlets.log import get_logger

from autograder.core.printable import printable
from autograder.nbgrader.times import UnreadableTime, parsed_utc

_format_path, _init_src = CourseDirectory.format_path, ExchangeReleaseAssignment.init_src
_EXPRESSION = re.compile(r"\(\?P<|\.\*$")
_PATTERNS = re.compile(r"[\[\]*?]")


def use_names() -> None:
    # nbgrader offers no hook: these modules call glob.glob. The version is pinned, and tests run the commands.
    collect.glob = SimpleNamespace(glob=submissions)
    release_feedback.glob = SimpleNamespace(glob=pages)
    listing.glob = api.glob = SimpleNamespace(glob=called)
    ExchangeCollect._path_to_record = record
    ExchangeReleaseAssignment.init_src = init_src
    CourseDirectory.format_path = format_path


def called(pattern: str) -> list[str]:
    """What is called so; stars are patterns, brackets are not."""
    return glob.glob(pattern.replace("[", "[[]"))


def pages(pattern: str) -> list[str]:
    """Of feedback; the learner may be a pattern where nobody is called so."""
    found = called(pattern) or glob.glob(pattern)
    if not found:
        get_logger().warning(
            "No feedback is there to release: write it with `nbgrader generate_feedback` (%s)", pattern
        )
    return found


def init_src(self: ExchangeReleaseAssignment) -> None:
    """Refuses names by which a learner's own nbgrader, which is not ours to mend, lists and fetches nothing."""
    for what, name in (("course", self.coursedir.course_id), ("assignment", self.coursedir.assignment_id)):
        if _PATTERNS.search(name):
            self.fail(
                f"Not released: learners' nbgrader takes the brackets and stars in the {what}'s name `{name}` for a pattern, "
                "and finds nothing by it. Give it a name without them; spaces and letters of any alphabet are fine."
            )
    _init_src(self)


def submissions(pattern: str) -> list[str]:
    """Of an inbound folder those that ``<learner>+<assignment>+*`` names; the learner may be a pattern where nobody is called so.

    One whose time cannot be read is named and left.
    """
    folder, name = os.path.split(pattern)
    learner, assignment, _ = name.rsplit("+", 2)
    found = [(_parts(name, assignment), name) for name in sorted(os.listdir(folder))]
    whose = {name: parts[0] for parts, name in found if parts is not None and parts[1] is not None}
    for parts, name in found:
        if parts is not None and parts[1] is None:
            get_logger().warning("Left in the exchange, its name holds no time: %s", printable(name))
    those = [name for name, who in whose.items() if who == learner]
    those = those or [name for name, who in whose.items() if fnmatchcase(who, learner)]
    return [os.path.join(folder, name) for name in those]


def record(self: ExchangeCollect, path: str) -> dict:
    """In the place of ``ExchangeCollect._path_to_record``, for which a learner's plus, or a zone's, parts the name."""
    filename = os.path.basename(path)
    username, timestamp = _parts(filename, self.coursedir.assignment_id)
    return {"username": username, "filename": filename, "timestamp": timestamp}


def _parts(name: str, assignment: str) -> tuple[str, datetime | None] | None:
    """Learner and time in a submission's name; None where it is another assignment's."""
    learner, plus, rest = name.rpartition(f"+{assignment}+")
    if not plus:
        return None
    for text in (rest, rest.rpartition("+")[0]):  # signs drawn at random may follow
        try:
            return learner, parsed_utc(text)
        except UnreadableTime:
            continue
    return learner, None


def format_path(
    self: CourseDirectory, nbgrader_step: str, student_id: str, assignment_id: str, escape: bool = False
) -> str:
    """In the place of nbgrader's, which makes an expression of a path, and escapes the course's folder alone in it."""
    names = (student_id, assignment_id)
    if escape:
        names = tuple(name if _EXPRESSION.match(name) else re.escape(name) for name in names)
    return _format_path(self, nbgrader_step, *names, escape)
