"""Evidence about a call that is due to raise."""

from collections.abc import Callable
from typing import Any

from autograder.proctor import describe


def outcome(call: Callable[[], Any]) -> dict[str, Any]:
    """``{"error": {...}}`` when ``call`` raised, ``{"returned": its value}`` when it did not."""
    try:
        return {"returned": call()}
    except Exception as error:
        return {"error": describe(error)}
