"""The part of a graded cell that nbgrader cuts out for learners."""

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
