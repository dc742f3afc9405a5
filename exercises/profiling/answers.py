"""What the chapter's judges ask of evidence before they look at a value."""

from typing import Any

from autograder.judge.expect import error_problem


def calls_problem(evidence: dict) -> str | None:
    """Why a function did not do the work by itself, or None."""
    return (
        f"The function calls {evidence['called'][0]:.30}: it is to do the work by itself."
        if evidence["called"]
        else None
    )


def returned(answer: dict) -> Any:
    """What came back, a tuple as such: it crosses as a list."""
    value = answer.get("returned")
    return tuple(value) if answer["is_tuple"] is True and isinstance(value, list) else value


def refusal_problem(answer: dict) -> str | None:
    """Why an answer is no ValueError, or None."""
    return error_problem(answer | {"returned": returned(answer)} if "returned" in answer else answer, "ValueError")
