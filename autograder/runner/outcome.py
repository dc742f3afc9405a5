"""Evidence about a call that should raise: what it raised, or that it returned."""

from collections.abc import Callable
from typing import Any

from autograder.runner.scenario_runner import NotDefined, describe


def outcome(call: Callable[[], Any]) -> dict[str, Any]:
    """``{"error": {...}}`` when ``call`` raised, ``{"returned": its value}`` when it did not.

    A function that is missing or not written yet raises here too: it has failed the case, whatever was expected.
    """
    try:
        return {"returned": call()}
    except (NotDefined, NotImplementedError):
        raise
    except Exception as error:
        return {"error": describe(error)}
