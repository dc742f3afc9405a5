"""The parts of a notebook that nbgrader cuts out for learners: hidden tests and solutions."""

import re

BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
BEGIN_SOLUTION, END_SOLUTION = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = '# YOUR CODE HERE\nraise NotImplementedError("write your code in place of this line")'
"""What learners are given in the place of a solution."""


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


def without_solution(source: str) -> str:
    """``source`` with a starter in the place of its author's marked solution, as nbgrader's ClearSolutions leaves it."""
    kept, inside = [], False
    for line in source.split("\n"):
        if BEGIN_SOLUTION in line:
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            kept += [f"{indent}{stub}" for stub in STUB.split("\n")]
        elif END_SOLUTION in line:
            inside = False
        elif not inside:
            kept.append(line)
    return "\n".join(kept)
