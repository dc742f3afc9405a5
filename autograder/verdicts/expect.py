"""What judges ask of evidence before they compare a value."""

from typing import Any

import torch

from autograder.wire import Opaque
from gpulab import Observation


def tensor_problem(value: Any, like: torch.Tensor) -> str | None:
    """Why ``value`` cannot be compared with ``like``, or None when shape and dtype agree.

    The message speaks of the kind of difference and never of the case's sizes.
    """
    if not isinstance(value, torch.Tensor):
        return f"The function returned {type_name(value)}; a torch.Tensor is due."
    if value.dtype != like.dtype:
        return f"The result is {value.dtype}; {like.dtype} is due."
    if value.ndim != like.ndim:
        return f"The result has {value.ndim} dimensions; {like.ndim} are due."
    if value.shape != like.shape:
        wrong = [axis for axis in range(like.ndim) if value.shape[axis] != like.shape[axis]]
        return f"The result's shape is wrong along dimension {', '.join(map(str, wrong))}."
    return None


def error_problem(evidence: dict[str, Any], due: str) -> str | None:
    """Why evidence of ``outcome`` is not the exception ``due``, or None when it is."""
    if "returned" in evidence:
        return f"The function returned {type_name(evidence['returned'])} where {due} is due."
    error = evidence["error"]
    if error["type"] == due:
        return None
    return f"The function raised {error['type']} where {due} is due."


_ONLY_ALLOCATE = ("aten.empty", "aten.new_empty", "aten.resize_", "aten.set_", "aten._unsafe_view", "aten.lift")


def nothing_wrote(seen: Observation) -> bool:
    """True when no operation that ran could have written an element: views and allocations alone."""
    return all(op.op.startswith(_ONLY_ALLOCATE) or _is_view(op.op) for op in seen.ops)


def _is_view(name: str) -> bool:
    packet = getattr(torch.ops.aten, name.removeprefix("aten."), None)
    return packet is not None and any(getattr(packet, overload).is_view for overload in packet.overloads())


def type_name(value: Any) -> str:
    """How a message names what came back: ``None``, ``a tuple``, ``an int``."""
    if value is None:
        return "None"
    name = value.type_name if isinstance(value, Opaque) else type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
