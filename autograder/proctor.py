"""Runs scenarios beside the learner's code. It knows no expected answer."""

import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from autograder import wire
from autograder.settings import fresh_settings
from autograder.witness import witness
from gpulab.observe.lines import is_learners_file


class NotDefined(Exception):
    """The notebook lacks something that the exercise asks for."""


class Learner:
    """The names that the learner's notebook defines, as attributes."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        try:
            return self._namespace[name]
        except KeyError:
            raise NotDefined(f"The notebook defines no `{name}`: was its cell deleted, or did it fail?") from None


def scenario(name: str) -> Callable[[Learner, dict], dict]:
    """The function that plays ``<chapter>.<exercise>``."""
    chapter, _, exercise = name.partition(".")
    return getattr(import_module(f"autograder.scenarios.{chapter}"), exercise)


def sit(name: str, namespace: Mapping[str, Any], inputs: bytes) -> bytes:
    """Play one case; whatever the learner's code raises becomes evidence.

    ``elsewhere`` in the evidence says which kinds of thing worked where no instrument looks.
    """
    with fresh_settings(), witness.watch() as elsewhere:
        try:
            evidence = scenario(name)(Learner(namespace), wire.decode(inputs))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            evidence = {"raised": describe(error)}
    evidence["elsewhere"] = sorted(set(elsewhere))
    with fresh_settings():
        try:
            return wire.encode(evidence)
        except Exception as error:  # too large, too deep, or a key that cannot be written
            return wire.encode({"raised": describe(error)})


def describe(error: BaseException) -> dict[str, str]:
    """The exception's type, message and the innermost line that belongs to the notebook."""
    return {"type": type(error).__name__, "message": _message(error), "line": _learners_frame(error)}


def _message(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "replace").decode()
    except Exception:
        return ""


def _learners_frame(error: BaseException) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_learners_file(frame.filename):
            return frame.line or ""
    return ""
