"""Chapter "Host and device: moving bytes": what the learner's functions did on a virtual card.

Each case gets a card of its own, so that times, streams and memory start from nothing.
"""

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import torch

from autograder.proctor import Learner
from autograder.scenarios.device_told import device_told
from autograder.scenarios.outcome import outcome
from gpulab import cuda
from gpulab.cuda.device import state

CARD = "virtual:T4"


# E5.1 overlapped


def overlapped(learner: Learner, case: dict) -> dict:
    """Run the batches through, watched; the caller reads the results at once, as it may."""
    with cuda.use(CARD, quiet=True):
        step, calls, active = _step(case["weight"].cuda(), case["passes"])
        torch.cuda.synchronize()
        before, pinned = _active_bytes(), state.device_on().pinned
        torch.cuda.reset_peak_memory_stats()
        with device_told() as seen:
            results = learner.overlapped(_handed_out(case["batches"], case["as_generator"]), step)
            values = [_read(result) for result in results] if isinstance(results, (list, tuple)) else results
        # The recorded peak can be reset; what was active when a step began cannot.
        peak = max(torch.cuda.memory_stats()["active_bytes.all.peak"], *active, 0) - before
    record = {"rows": calls, "peak_bytes": peak, "pinned_bytes": pinned.bytes_in_all, "seen": seen.to_dict()}
    return {"values": values, **record}


def _active_bytes() -> int:
    """Bytes in use on the device, and what was let go while another stream may be using it."""
    return torch.cuda.memory_stats()["active_bytes.all.current"]


def _step(weight: torch.Tensor, passes: int) -> tuple[Callable, list[int], list[int]]:
    """A step; how many rows each call got, and how many bytes were active then."""
    calls: list[int] = []
    active: list[int] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x) if isinstance(x, torch.Tensor) and x.is_cuda else -1)
        active.append(_active_bytes())
        for _ in range(passes):
            x = x * weight
        return x.sum(1)

    return step, calls, active


def _handed_out(batches: list[torch.Tensor], as_generator: bool) -> Any:
    return (batch for batch in batches) if as_generator else list(batches)


def _read(result: Any) -> Any:
    """What the caller reads now. A result that is still on the device is no host tensor."""
    return result.clone() if type(result) is torch.Tensor and not result.is_cuda else result


# E5.2 transfer_time


def transfer_time(learner: Learner, case: dict) -> dict:
    """Ask every question."""
    return {"answers": [outcome(lambda: learner.transfer_time(*_arguments(q))) for q in case["questions"]]}


def _arguments(question: dict) -> list:
    link = dict(question["link"])
    if "encoding" in link:
        link["encoding"] = tuple(link["encoding"])
    return [question["nbytes"], link, *([question["messages"]] if "messages" in question else [])]


# E5.3 move_to

Observed = namedtuple("Observed", "image state text")


def move_to(learner: Learner, case: dict) -> dict:
    """Move the case's nesting, or its module, to the card, watched."""
    with cuda.use(CARD, quiet=True):
        return _module_moved(learner, case) if case["module"] else _nesting_moved(learner, case)


def _nesting_moved(learner: Learner, case: dict) -> dict:
    tensors = [_placed(tensor, case["place"]) for tensor in case["tensors"]]
    given = _nesting(tensors, case["empty"])
    before = _described(given, tensors)
    with device_told() as seen:
        result = learner.move_to(given, "cuda", **({"non_blocking": True} if case["non_blocking"] else {}))
    known: list[torch.Tensor] = []
    return {
        "result": _described(result, known, tensors),
        "tensors": [tensor.cpu() for tensor in known],
        "on_device": [_is_on_card(tensor) for tensor in known],
        "handed_in": [before, _described(given, tensors)],
        "seen": seen.to_dict(),
    }


def _is_on_card(tensor: torch.Tensor) -> bool:
    """Whether it is what the device itself makes, and not a class that says so."""
    return type(tensor) is type(torch.empty(0, device="cuda")) and bool(tensor.is_cuda)


def _placed(tensor: torch.Tensor, place: str) -> torch.Tensor:
    return {"pageable": tensor.clone, "pinned": tensor.pin_memory, "cuda": tensor.cuda}[place]()


def _nesting(tensors: list[torch.Tensor], empty: bool) -> Any:
    """Every kind of container that the statement names; the last tensor occurs three times."""
    *others, twice = tensors
    if empty:
        return {"rest": [], "pair": (), "alone": twice}
    return OrderedDict(
        z=Observed(others[0], {"joints": others[1], "ids": [others[2], 7]}, "reach the red cube"),
        a=[None, (twice, 2.5), twice],
        m={"inner": (others[3], [twice])},
    )


def _described(value: Any, known: list[torch.Tensor], originals: list[torch.Tensor] = ()) -> Any:
    """The nesting as plain data. A tensor is its place in ``known``, where a new one is added."""
    if isinstance(value, torch.Tensor):
        if not any(tensor is value for tensor in known):
            known.append(value)
        number = next(i for i, tensor in enumerate(known) if tensor is value)
        return ["tensor", number, any(tensor is value for tensor in originals)]
    if isinstance(value, dict):
        return [type(value).__name__, [[key, _described(item, known, originals)] for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [_described(item, known, originals) for item in value]]
    return ["other", value]


class Policy(torch.nn.Module):
    """Parameters, a persistent buffer, one that is not, and a tied weight."""

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> None:
        super().__init__()
        self.head = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        self.head.weight = torch.nn.Parameter(weight.clone())
        self.tied = self.head.weight
        self.register_buffer("scale", scale.clone())
        self.register_buffer("offset", offset.clone(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) * self.scale + self.offset


def _module_moved(learner: Learner, case: dict) -> dict:
    policy = Policy(case["weight"], case["scale"], case["offset"])
    optimizer = torch.optim.SGD(policy.parameters(), lr=case["lr"])
    holder = {"policy": policy, "steps": 3} if case["held"] else policy
    with device_told() as seen:
        result = learner.move_to(holder, "cuda")
    moved = result["policy"] if case["held"] and isinstance(result, dict) else result
    if not isinstance(moved, torch.nn.Module):
        return {"moved": type(moved).__name__}
    return {"same": moved is policy, **_trained(moved, optimizer, case["x"]), "seen": seen.to_dict()}


def _trained(policy: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> dict:
    """Where everything is, and what one step of the optimizer made of what is there."""
    tensors = {**dict(policy.named_parameters(remove_duplicate=False)), **dict(policy.named_buffers())}
    where = {name: bool(tensor.is_cuda) for name, tensor in tensors.items()}
    if not all(where.values()):
        return {"where": where}
    policy(x.cuda()).sum().backward()
    optimizer.step()
    after = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    return {"where": where, "after": after, "tied": policy.tied is policy.head.weight}
