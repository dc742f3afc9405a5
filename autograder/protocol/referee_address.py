"""Where a kernel finds its referee: taken out of the environment before the first cell, whatever a notebook does with that then."""

from collections.abc import MutableMapping

VARIABLE = "AUTOGRADER_REFEREE"
_address = ""


def take_from(environment: MutableMapping[str, str]) -> None:
    global _address
    _address = environment.pop(VARIABLE, "")


def referee_address() -> str:
    """Empty in a kernel that is not graded."""
    return _address
