"""Checks of evidence that judges make before they compare a value."""

from collections.abc import Collection, Sequence
from math import isfinite
from reprlib import repr as short
from typing import Any

import torch

from autograder.core.verdict import UNWRITTEN
from autograder.judge.words import MOST_NAMED, joined
from autograder.protocol.plain import Other
from autograder.protocol.wire import Opaque
from gpulab import Observation

CAME_BACK_LATE = "The host came back when the device was done: to ask it again and again is to wait."
"""Of a function that is to wait for nothing, called while the card is at work (``autograder.runner.card.at_work``)."""


def tensor_problem(value: Any, like: torch.Tensor) -> str | None:
    """Why ``value`` cannot be compared with ``like``, or None when shape and dtype agree.

    The message speaks of the kind of difference and never of the case's sizes.
    """
    if not isinstance(value, torch.Tensor):
        return f"The function returned {type_name(value)}; expected a torch.Tensor."
    if value.dtype != like.dtype:
        return f"The result is {value.dtype}; expected {like.dtype}."
    if value.ndim != like.ndim:
        return f"The result has {value.ndim} dimensions; expected {like.ndim}."
    if value.shape != like.shape:
        wrong = [axis for axis in range(like.ndim) if value.shape[axis] != like.shape[axis]]
        return f"The result's shape is wrong along dimension {', '.join(map(str, wrong))}."
    return None


def error_problem(evidence: dict[str, Any], expected: str, because: str = "") -> str | None:
    """Why evidence, of a case or of one :func:`outcome`, is not what ``except expected`` catches; None when it is.

    ``because``: what is wrong with the arguments, as a clause that names them: "the unit `gb` is none of the two".
    """
    problem = _uncaught(evidence, expected)
    return f"{problem.removesuffix('.')}, because {because}." if problem and because else problem


def _uncaught(evidence: dict[str, Any], expected: str) -> str | None:
    error = evidence.get("raised") or evidence.get("error")
    if error is None:
        value = evidence.get("returned", evidence.get("result", evidence))
        if value is evidence:
            return f"The function returned without an exception; expected {expected}."
        named = _named(str(evidence["class"])) if "class" in evidence else type_name(value)
        return f"The function returned {named}; expected {expected}."
    if expected in error["kinds"]:
        return None
    if error["type"] == expected:
        return f"The function raised a class of its own called {expected}; expected Python's {expected}."
    return f"The function raised {error['type']}; expected {expected}."


def refusals_problem(answers: Any, reasons: Sequence[str | None], expected: str, sound: str) -> str | None:
    """Why calls, of each the evidence of one :func:`outcome`, were not refused where there is a reason, or were where there is none.

    ``sound``: what the others were called with: "A model that can be sharded is".
    """
    if problem := count_problem(answers, len(reasons)):
        return problem
    for answer, because in zip(answers, reasons, strict=True):
        if because and (problem := error_problem(answer, expected, because)):
            return problem
        if not because and "error" in answer:
            return f"{sound} refused. {raised_problem(answer['error'])}"
    return None


def is_written(error: dict[str, Any]) -> bool:
    """Whether a function raised this itself: it is neither missing nor a starter."""
    return not isinstance(error, dict) or error.get("type") not in ("NotImplementedError", "NotDefined")


def raised_problem(error: object) -> str:
    """The sentence for a learner about an unexpected exception."""
    if not isinstance(error, dict):
        return "The function raised an exception."
    kind, message, line = (str(error.get(key, ""))[:300] for key in ("type", "message", "line"))
    if kind == "NotImplementedError":
        return UNWRITTEN
    if kind == "NotDefined":
        return message
    where = f" at `{line}`" if line else ""
    return f"The function raised {kind}{where}" + (f": {message}" if message else ".")


def changed_problem(after: Any, before: torch.Tensor, what: str) -> str | None:
    """Why an argument does not hold what it held ``before`` the call, or None. ``what``: its name in the sentence."""
    if tensor_problem(after, before) or not torch.equal(after, before):
        return f"The function changed {what}."
    return None


def device_problem(seen: Observation) -> str | None:
    """Why an observation is not of work on the host alone, or None."""
    transfers = any(copy.kind in ("HtoD", "DtoH") for copy in seen.copies)
    if seen.kernels or seen.waits or transfers or any(op.device not in ("cpu", "meta") for op in seen.ops):
        return "A device did a part of the work: expected all of it on the host, where the tensors are."
    return None


def shares_input_storage(evidence: dict[str, Any], number: int = 0) -> bool:
    """Whether the function's ``number``-th result is in the storage of its ``number``-th input tensor.

    By storage addresses; that of the input was logged before the call, since a tensor can be pointed elsewhere.
    """
    inputs, results = evidence["input_addresses"], evidence["result_addresses"]
    return number < min(len(inputs), len(results)) and inputs[number] == results[number]


def count_problem(values: Any, expected: int) -> str | None:
    """Why evidence is not a list of ``expected`` entries, or None: a judge that loops over fewer finds nothing wrong."""
    if isinstance(values, list) and len(values) == expected:
        return None
    return "The record does not hold every call of the function."


def entries_problem(value: Any, expected: Collection[str]) -> str | None:
    """Why an answer is not a dictionary with the ``expected`` entries and no others, or None. It names them."""
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary."
    missing, more = [key for key in expected if key not in value], [key for key in value if key not in expected]
    said = [f"no {_entries(missing)}"] if missing else []
    said += [f"{'an unexpected' if len(more) == 1 else 'unexpected'} {_entries(more)}"] if more else []
    return f"The dictionary has {', and '.join(said)}." if said else None


def _entries(keys: list) -> str:
    named = [f"`{key:.40}`" if isinstance(key, str) else f"`{short(key)}`" for key in keys[:MOST_NAMED]]
    named += [f"{len(keys) - MOST_NAMED} more"] if len(keys) > MOST_NAMED else []
    return f"{'entry' if len(keys) == 1 else 'entries'} {joined(named, ' and ')}"


def is_finite_number(value: Any) -> bool:
    """An int or a float, no bool. What crosses as an int is in the range of floats (``autograder.protocol.plain``)."""
    return type(value) is int or (type(value) is float and isfinite(value))


def type_name(value: Any) -> str:
    """How a message names what came back: ``None``, ``a tuple``, ``an int``."""
    return _named(value.type_name if isinstance(value, Opaque | Other) else type(value).__name__)


def _named(class_name: str) -> str:
    return "None" if class_name == "NoneType" else f"{'an' if class_name[:1].lower() in 'aeiou' else 'a'} {class_name}"
