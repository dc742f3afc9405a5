"""Calls of one function, one after the other: what each gave, and whether it left its arguments as they were."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from autograder.protocol.plain import other, plain, read


def asked(function: Callable, calls: str, describe: Callable[[BaseException], dict]) -> dict[str, Any]:
    """``answers``: for each call the value that it ``returned`` and its ``class``, or its ``error``, and whether its arguments were ``kept``.

    A list, a dictionary or a namespace that is handed over is one object for all calls, filled anew: what a function
    remembers by identity is wrong. A function that is not written ends it: ``raised``.
    """
    answers, held = [], {}
    for arguments, as_it_was in zip(read(calls), read(calls), strict=True):
        given = tuple(_refilled(held, at, value) for at, value in enumerate(arguments))
        try:
            returned = function(*given)
        except NotImplementedError as error:
            return {"raised": describe(error)}
        except Exception as error:
            answer = {"error": describe(error)}
        else:
            answer = {"returned": _plain(returned), "class": type(returned).__name__[:200]}
        answers.append({**answer, "kept": repr(given) == repr(as_it_was)})
    return {"answers": answers}


def _plain(value: Any) -> Any:
    """What cannot be read, such as a list that holds itself, is an object like any other: the function did not raise that."""
    try:
        return plain(value)
    except Exception:
        return other(value)


def _refilled(held: dict, at: int, value: Any) -> Any:
    """The object that stood in this place in an earlier call, with what ``value`` holds, where it is of that class."""
    before = held.setdefault(at, value)
    if before is value or type(before) is not type(value):
        return value
    if isinstance(value, list):
        before[:] = value
    elif isinstance(value, (dict, SimpleNamespace)):
        contents, new = (before, value) if isinstance(value, dict) else (vars(before), vars(value))
        contents.clear()
        contents.update(new)
    else:
        return value
    return before
