"""E16.3 schedule_1f1b: what calls the learner's function, in an interpreter of its own."""

from collections.abc import Callable
from typing import Any

from autograder.protocol import asked as questions
from autograder.protocol.plain import plain


def asked(function: Callable, calls: str, describe: Callable[[BaseException], dict]) -> dict[str, Any]:
    """The answers; what came back is spoilt before the next table is asked for."""
    return questions.asked(lambda *sizes: _spoilt(function(*sizes)), calls, describe)


def _spoilt(table: Any) -> Any:
    """What it held."""
    held = plain(table)
    for row in table if isinstance(table, list) else ():
        if isinstance(row, list):
            row.clear()
    return held
