"""E5.3 move_to: what runs beside the learner's function."""

from collections import OrderedDict, namedtuple
from typing import Any

import torch

from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.transfers.run import CARD
from gpulab import cuda

Observed = namedtuple("Observed", "image state text")


def run(learner: Learner, case: dict) -> dict:
    """Move the case's nesting, or its module, to the card, watched."""
    with cuda.use(CARD, quiet=True):
        return _module_moved(learner, case) if case["module"] else _nesting_moved(learner, case)


def _nesting_moved(learner: Learner, case: dict) -> dict:
    """Each part of the case is a nesting of its own, moved by a call of its own."""
    parts = [_Part(learner, part) for part in case["parts"]]
    options = {"non_blocking": True} if case["non_blocking"] else {}
    with observe() as seen:
        results = [learner.move_to(part.given, part.device, **options) for part in parts]
    return {"parts": [part.shown(result) for part, result in zip(parts, results)], "seen": seen.to_dict()}


class _Part:
    """A nesting that is to be moved, and what is known of it before."""

    def __init__(self, learner: Learner, part: dict) -> None:
        self.tensors = [
            _placed(tensor, part["places"][i % len(part["places"])]) for i, tensor in enumerate(part["tensors"])
        ]
        if part["form"] == "all":
            self.tensors[5], self.tensors[9] = _others_at_the_same_address(self.tensors[0])
        if part["gradient"]:
            self.tensors[10] = self.tensors[0].detach()
        self.leaves = _made_to_require_gradients(self.tensors) if part["gradient"] else []
        self.kept = {"a", "b", torch.ones(1)}, Camera()
        self.given, self.device = _nesting(self.tensors, part["form"], *self.kept), _device(part["device"])
        self.before = self._described(self.given, self.tensors)
        if part["again"]:
            _moved_once_with_other_values(learner, self.given, self.tensors, self.device)

    def shown(self, result: Any) -> dict:
        known: list[torch.Tensor] = []
        return {
            "result": self._described(result, known),
            "tensors": [tensor.detach().cpu() for tensor in known],
            "on_device": [_is_on_card(tensor) for tensor in known],
            "gradients": [[_gradient(tensor, leaf) for leaf in self.leaves] for tensor in known],
            "handed_in": [self.before, self._described(self.given, self.tensors)],
        }

    def _described(self, value: Any, known: list[torch.Tensor]) -> Any:
        return _described(value, known, self.tensors, self.kept)


def _others_at_the_same_address(square: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the same shape, one with other strides, one with another dtype: neither is that tensor."""
    return square.t(), square.view(torch.int32)


def _made_to_require_gradients(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The first becomes a leaf, the fourth is computed from one. Returns both leaves."""
    leaves = [tensors[0].requires_grad_(), tensors[3].requires_grad_()]
    tensors[3] = leaves[1] * 1
    return leaves


def _device(name: str) -> Any:
    return {"object": torch.device("cuda", 0), "number": 0, "host": torch.device("cpu")}.get(name, name)


def _moved_once_with_other_values(learner: Learner, given: Any, tensors: list[torch.Tensor], device: Any) -> None:
    values = [tensor.detach().clone() for tensor in tensors]
    with torch.no_grad():
        for tensor in tensors:
            tensor.zero_()
        learner.move_to(given, device)
        for tensor, value in zip(tensors, values):
            tensor.copy_(value)


def _gradient(moved: torch.Tensor, source: torch.Tensor) -> torch.Tensor | None:
    """What arrives at ``source`` from the sum of what it became; None where nothing does."""
    if not moved.requires_grad:
        return None
    (gradient,) = torch.autograd.grad(moved.sum(), source, allow_unused=True)
    return None if gradient is None else gradient.cpu()


def _is_on_card(tensor: torch.Tensor) -> bool:
    """Whether it is what the device itself makes, and not a class that says so."""
    return type(tensor) is type(torch.empty(0, device="cuda")) and bool(tensor.is_cuda)


def _placed(tensor: torch.Tensor, place: str) -> torch.Tensor:
    return {"pageable": tensor.clone, "pinned": tensor.pin_memory, "cuda": tensor.cuda}[place]()


class Camera:
    """No tensor and no module, though it has their method."""

    def to(self, *where: Any, **how: Any) -> None:
        """It goes nowhere."""


def _nesting(tensors: list[torch.Tensor], form: str, kept: set, camera: Camera) -> Any:
    """Every kind of container that the statement names, inside each other or alone; ``plain``: a list.

    The seventh tensor occurs three times, or twice; of ``all`` the one before it and the tenth lie where the first does.
    """
    one = tensors[-1]
    forms = {
        "tensor": lambda: one,
        "plain": lambda: [*tensors, tensors[6]],
        "list": lambda: [one, [], {}],
        "tuple": lambda: (one,),
        "namedtuple": lambda: Observed(one, None, ()),
        "dict": lambda: {"rest": [], "pair": (), 3: one},
        "nothing": lambda: "reach the red cube",
        "pairs": lambda: [_holding([_holding([one, inner], inner) for inner in _KINDS], outer) for outer in _KINDS],
    }
    if form in forms:
        return forms[form]()
    twice = tensors[6]
    return OrderedDict(
        first=tensors[10],
        z=Observed(tensors[0], {"joints": tensors[1], "ids": [tensors[2], 7]}, "reach the red cube"),
        a=[None, (twice, 2.5), twice, True, camera],
        m={
            2: (tensors[3], [twice]),
            1: kept,
            None: Observed(Observed(tensors[4], 0, [tensors[5]]), ((),), {}),
            "least": [tensors[7], tensors[8], tensors[9]],
        },
    )


_KINDS = ("list", "tuple", "namedtuple", "dict", "OrderedDict")


def _holding(items: list, kind: str) -> Any:
    """A container of this kind with these items; a namedtuple holds three, the last of them together."""
    made = {"list": list, "tuple": tuple, "namedtuple": lambda some: Observed(some[0], some[1], some[2:])}
    keyed = {"dict": dict, "OrderedDict": OrderedDict}
    if kind in keyed:
        return keyed[kind]((f"{len(items) - number}", item) for number, item in enumerate(items))
    return made[kind](items)


def _described(value: Any, known: list[torch.Tensor], originals: list[torch.Tensor], kept: tuple) -> Any:
    """The nesting as plain data: the kind of a container, then its items, or its keys and items in turn.

    A tensor is its place in ``known``, where a new one is added.
    """
    if isinstance(value, torch.Tensor):
        if not any(tensor is value for tensor in known):
            known.append(value)
        number = next(i for i, tensor in enumerate(known) if tensor is value)
        return ["tensor", number, any(tensor is value for tensor in originals)]
    if isinstance(value, dict):
        pairs = [(key, _described(item, known, originals, kept)) for key, item in value.items()]
        return [type(value).__name__, *(one for pair in pairs for one in pair)]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(_described(item, known, originals, kept) for item in value)]
    if isinstance(value, set):
        return ["set", value is kept[0], len(value)]
    if isinstance(value, Camera):
        return ["camera", value is kept[1]]
    return ["other", value]


class Policy(torch.nn.Module):
    """Parameters, one of them frozen, a tied weight, a buffer, one that is not saved, and one in a part."""

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> None:
        super().__init__()
        self.head = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        self.head.weight = torch.nn.Parameter(weight.clone())
        self.tied = self.head.weight
        self.register_buffer("scale", scale.clone())
        self.register_buffer("offset", offset.clone(), persistent=False)
        self.head.register_buffer("count", torch.ones((), dtype=torch.int64))
        self.frozen = torch.nn.Parameter(offset.clone(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) * self.scale + self.offset + self.frozen * self.head.count


def _module_moved(learner: Learner, case: dict) -> dict:
    policy = Policy(case["weight"], case["scale"], case["offset"])
    if case["pinned"]:
        for tensor in (*policy.parameters(), *policy.buffers()):
            tensor.data = tensor.data.pin_memory()
    if case["head_first"]:
        policy.head.cuda()
    optimizer = torch.optim.SGD(policy.parameters(), lr=case["lr"])
    policy.train(not case["held"])
    if case["gradient"]:
        policy.head.weight.grad = torch.ones_like(policy.head.weight)
    holder = {"policy": policy, "steps": 3, "same": [policy]} if case["held"] else policy
    with observe() as seen:
        result = learner.move_to(holder, "cuda", **({"non_blocking": True} if case["non_blocking"] else {}))
    moved = result.get("policy") if case["held"] and isinstance(result, dict) else result
    if not isinstance(moved, torch.nn.Module):
        return {"moved": type(moved).__name__}
    return {"same": moved is policy, **_trained(moved, optimizer, case["x"]), "seen": seen.to_dict()}


def _trained(policy: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> dict:
    """Where everything is, how the module stands, and what one step of the optimizer made of it, once nothing is frozen."""
    tensors = {**dict(policy.named_parameters(remove_duplicate=False)), **dict(policy.named_buffers())}
    where = {name: bool(tensor.is_cuda) for name, tensor in tensors.items()}
    if not all(where.values()):
        return {"where": where}
    flags = [policy.training, policy.head.weight.requires_grad, policy.frozen.requires_grad]
    step = outcome(lambda: _step(policy, optimizer, x, tensors))
    return {"where": where, "flags": flags, "tied": policy.tied is policy.head.weight, **step.get("returned", step)}


def _step(policy: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, tensors: dict) -> dict:
    policy.frozen.requires_grad_()
    policy(x.cuda()).sum().backward()
    optimizer.step()
    return {"after": {name: tensor.detach().cpu() for name, tensor in tensors.items()}}
