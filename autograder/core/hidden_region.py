"""The part of a graded cell that nbgrader cuts out for learners."""

import re

BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"


def without_hidden_tests(source: str) -> str:
    """``source`` as the learner was given it."""
    kept, hidden = [], False
    for line in source.split("\n"):
        if BEGIN in line:
            hidden = True
        elif END in line:
            hidden = False
        elif not hidden:
            kept.append(line)
    return "\n".join(kept).rstrip()


_NAMED = re.compile(r'autograder\.grade\("([a-z_0-9]+\.[a-z_0-9]+)"\)')


def named_exercise(source: str) -> str | None:
    """The exercise that a graded cell's hidden part names, or None."""
    named = _NAMED.search(source)
    return named.group(1) if named else None
