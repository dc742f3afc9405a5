"""What attention with a memory gives, call after call, and what it does and holds meanwhile."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from gpulab import cuda
from gpulab.cuda.device.tensor import CudaTensor

_CARD = "virtual:H100"


class Layer(nn.Module):
    """The notebook's attention layer, whose angles may grow faster than positions do."""

    def __init__(self, given: dict) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = given["heads"], given["kv_heads"], given["head_dim"]
        self.base, self.bend = given["base"], given["bend"]
        for name, weight in given["weights"].items():
            project = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
            project.weight = nn.Parameter(weight.clone(), requires_grad=given["trains"])
            self.add_module(name, project)

    def rotate(self, x: torch.Tensor, start: int) -> torch.Tensor:
        half = self.head_dim // 2
        place = torch.arange(start, start + x.shape[2], dtype=torch.float64, device=x.device) ** self.bend
        pair = torch.arange(half, dtype=torch.float64, device=x.device)
        angle = place[:, None] * self.base ** (-pair / half)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.rotate(q, 0), self.rotate(k, 0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))

    def described(self) -> list:
        """Its attributes, modules and parameters."""
        parts = [(name, id(module), module.training, sorted(vars(module))) for name, module in self.named_modules()]
        return [
            parts,
            [(name, id(p), p.requires_grad, p._version, p.grad is None) for name, p in self.named_parameters()],
        ]


def run(learner: Learner, case: dict) -> dict:
    """Make objects, call and reset them as the case says; one action may be watched."""
    with cuda.use(_CARD, quiet=True) if case["device"] == "cuda" else nullcontext():
        return _Play(learner, case).play()


class _Play:
    def __init__(self, learner: Learner, case: dict) -> None:
        self._learner, self._case = learner, case
        self._layers = [Layer(given).to(case["device"]) for given in case["layers"]]
        self._made: dict[int, Any] = {}
        self._buffers: dict[tuple, torch.Tensor] = {}
        self._seen: dict | None = None

    def play(self) -> dict:
        before = [layer.described() for layer in self._layers]
        inputs = [self._placed(action) if action["do"] == "call" else None for action in self._case["actions"]]
        self._base = self._allocated()
        steps = [self._step(action, x) for action, x in zip(self._case["actions"], inputs, strict=True)]
        for step in steps:
            if _plain(step.get("returned")):
                step["returned"] = _host(step["returned"])
        kept = [layer.described() for layer in self._layers] == before and all(
            map(_has, self._layers, self._case["layers"])
        )
        return {"steps": steps, "kept": kept, **({} if self._seen is None else {"seen": self._seen})}

    def _placed(self, action: dict) -> torch.Tensor:
        """Room for the tokens of a call, where calls of one shape have the same: as a caller's buffer."""
        x, how = action["x"], action["layout"]
        key = (x.shape, x.dtype, how)
        if key not in self._buffers:
            empty = {"dtype": x.dtype, "device": self._case["device"]}
            if how == "stepped":
                self._buffers[key] = torch.empty(*x.shape[:-1], 2 * x.shape[-1], **empty)[..., ::2]
            elif how == "transposed":
                self._buffers[key] = torch.empty(*x.shape[:-2], *x.shape[:-3:-1], **empty).transpose(-1, -2)
            else:
                self._buffers[key] = torch.empty(x.shape, **empty)
        return self._buffers[key]

    def _step(self, action: dict, buffer: torch.Tensor | None) -> dict:
        """What an action gave or raised; how long the object then is, and what the card holds beside what was given."""
        do = getattr(self, f"_{action['do']}")
        if buffer is not None:
            buffer.copy_(action["x"])
            x = (buffer.clone() if action["layout"] == "fresh" else buffer.detach()).requires_grad_(action["grad"])
        else:
            x = None
        if action["watch"]:
            with observe() as seen:
                step = outcome(lambda: do(action, x))  # noqa: F821 (it is deleted after its last use)
            self._seen = seen.to_dict()
        else:
            step = outcome(lambda: do(action, x))  # noqa: F821
        if buffer is not None:
            step |= self._after_call(step.get("returned"), action["x"], buffer)
            if _plain(step.get("returned")):
                step["at_once" if self._case["keep"] else "returned"] = _host(step["returned"])
        del x
        held = self._allocated() - self._base  # whoever looks up `length` runs code of the learner's
        length = _number(getattr(self._made.get(action["of"]), "length", None))
        return step | {"length": length, "held": max(held, self._allocated() - self._base)}

    def _make(self, action: dict, _: None) -> None:
        layer = self._layers[action["layer"]]
        self._made[action["of"]] = self._learner.cached_attention(layer, action["batch"], action["capacity"])

    def _reset(self, action: dict, _: None) -> None:
        self._made[action["of"]].reset()

    def _call(self, action: dict, x: torch.Tensor) -> Any:
        return self._made[action["of"]](x)

    def _after_call(self, returned: Any, x: torch.Tensor, buffer: torch.Tensor) -> dict:
        """Whether the tokens were left as they are, and a graph or another device has the result. Then they are overwritten."""
        same = torch.equal(buffer.cpu(), x)
        buffer.fill_(float("nan"))
        if not _plain(returned):
            return {"same": same}
        return {"same": same, "graph": returned.requires_grad, "device": returned.device.type}

    def _allocated(self) -> int:
        return torch.cuda.memory_allocated() if self._case["device"] == "cuda" else 0


def _has(layer: Layer, given: dict) -> bool:
    """Whether the layer has the weights that it was given."""
    return all(torch.equal(_host(getattr(layer, name).weight), weight) for name, weight in given["weights"].items())


def _number(length: Any) -> int | str:
    """An int as it is, and of anything else the type's name."""
    return length if type(length) is int else type(length).__name__


def _plain(value: Any) -> bool:
    """Whether it is a tensor of the host's or a card's own class: one of another may compute when it is read."""
    return type(value) in (torch.Tensor, CudaTensor)


def _host(tensor: torch.Tensor) -> torch.Tensor:
    """By its class's methods: what a tensor is given as attributes of its own may compute something, too."""
    kind = type(tensor)
    return torch.clone(kind.cpu(kind.detach(tensor)))
