"""What the chapter's judges ask of evidence before they look at a value."""

from typing import Any

from autograder.judge.expect import error_problem


def returned(answer: dict) -> Any:
    """What came back, a tuple as such: it crosses as a list."""
    value = answer.get("returned")
    return tuple(value) if answer["is_tuple"] is True and isinstance(value, list) else value


def refusal_problem(answer: dict) -> str | None:
    """Why an answer is no ValueError, or None."""
    return error_problem(answer | {"returned": returned(answer)} if "returned" in answer else answer, "ValueError")
