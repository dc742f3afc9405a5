"""E5.3 move_to: whether a module was moved in place, and its optimizer still trains it."""

from typing import Any

import torch

from autograder.judge.expect import tensor_problem
from gpulab import Observation


def same_tensor(value: Any, expected: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == expected.dtype and torch.equal(value, expected)


def sent_bytes(seen: Observation) -> int:
    """Bytes that were copied from the host to the device."""
    return sum(copy.bytes for copy in seen.copies if copy.kind == "HtoD")


def wrong_module(inputs: dict, evidence: dict) -> str | None:
    if "moved" in evidence:
        return "A module that was handed in did not come back as a module."
    if not evidence["same"]:
        return "Another module came back: a module is moved in place, or its optimizer trains the old one."
    left = [name for name, on_device in evidence["where"].items() if not on_device]
    if left:
        return (
            "A buffer stayed on the host: parameters are not all that a module holds."
            if set(left) <= {"scale", "offset", "head.count"}
            else "A parameter stayed on the host."
        )
    sent = ("scale", "offset") if inputs["head_first"] else ("weight", "scale", "offset")
    if sent_bytes(Observation.from_dict(evidence["seen"])) < sum(inputs[name].nbytes for name in sent):
        return "Not all parameters and buffers were seen to travel to the device."
    if "error" in evidence:
        return f"After the move the module cannot be trained: {evidence['error']['type']}, {evidence['error']['message']:.200}"
    if problem := _wrong_after_a_step(inputs, evidence):
        return problem
    if evidence["flags"] != [not inputs["held"], True, False]:
        return "The module came back in another mode, or with another requires_grad: a move changes where tensors are."
    return None


def _wrong_after_a_step(inputs: dict, evidence: dict) -> str | None:
    after, weight = evidence["after"], inputs["weight"]
    gradient = inputs["scale"][:, None] * inputs["x"].sum(0) + (1 if inputs["gradient"] else 0)
    if not all(isinstance(after.get(name), torch.Tensor) for name in ("head.weight", "scale", "offset", "frozen")):
        return "The module has lost a parameter or a buffer."
    if tensor_problem(after["head.weight"], weight):
        return "The module's weight has another shape or dtype than before."
    if torch.equal(after["head.weight"], weight):
        return "The optimizer's step did not change the module's weight: it holds parameters that are no longer the module's."
    if not torch.allclose(after["head.weight"], weight - inputs["lr"] * gradient, rtol=1e-4, atol=1e-4):
        return "After one step of the optimizer the weight is wrong: gradients that were there before count too."
    if not torch.allclose(after["frozen"], inputs["offset"] - inputs["lr"] * len(inputs["x"]), rtol=1e-4, atol=1e-4):
        return "A parameter that was frozen is the optimizer's no longer: every parameter stays the object that it was."
    if not all(map(same_tensor, (after["scale"], after["offset"]), (inputs["scale"], inputs["offset"]))):
        return "A buffer has other values than before."
    return None if evidence["tied"] else "A weight that two modules share has become two."
