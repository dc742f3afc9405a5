"""E9.4 lora_memory: what runs beside the learner's function."""

import gc
from typing import Any
from weakref import ref

import torch
from torch import nn

import gpulab
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from gpulab import cuda

_CARD = "virtual:H100"


class Norm(nn.Module):
    """A learned scale of what has a mean square of 1; PyTorch's own starts threads for a handful of numbers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


class Block(nn.Module):
    """A gate beside a layer that several blocks may share, then two layers that widen and narrow."""

    def __init__(self, given: dict, number: int) -> None:
        super().__init__()
        width, wide = given["width"], given["wide"]
        self.query_name, self.gate_name = ("query" if number and given["alias"] else "q"), given["gate"]
        self.add_module(self.query_name, nn.Linear(width, width))
        self.add_module(self.gate_name, nn.Linear(width, width, bias=False))
        self.norm = Norm(width)
        self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + getattr(self, self.query_name)(x) * torch.tanh(getattr(self, self.gate_name)(x))
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Toy(nn.Module):
    """Tokens to logits. The head may have the embedding's weight, and the second block the first one's query."""

    def __init__(self, given: dict) -> None:
        super().__init__()
        self.embed = nn.Embedding(given["vocabulary"], given["width"])
        self.blocks = nn.ModuleList(Block(given, number) for number in range(2))
        self.head = nn.Linear(given["width"], given["vocabulary"], bias=False)
        if given["shared"]:
            self.blocks[1].add_module(self.blocks[1].query_name, self.blocks[0].q)
        if given["tied"]:
            self.head.weight = self.embed.weight
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(given["values"][name])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def run(learner: Learner, case: dict) -> dict:
    """Adapt a model and train it for a step; what it is, computes and holds at each point."""
    if case["refused"]:
        return {"answers": [_refused(learner, {**case, **change}) for change in case["refused"]]}
    if case["device"] == "cpu":
        return _trained(learner, case)
    with cuda.use(_CARD, quiet=True):
        return _held(learner, case)


def _refused(learner: Learner, case: dict) -> dict:
    """The outcome of a call that should raise, and whether the model is unchanged."""
    model = Toy(case["model"])
    before = _described(model)
    return {**outcome(lambda: _call(learner, model, case)), "as_it_was": _described(model) == before}


def _described(model: nn.Module) -> tuple[list, list]:
    """Every module and every parameter, by name and identity."""
    modules = [(name, ref(module)) for name, module in model.named_modules(remove_duplicate=False)]
    return modules, [(name, ref(parameter), parameter.requires_grad) for name, parameter in model.named_parameters()]


def _call(learner: Learner, model: nn.Module, case: dict) -> Any:
    options = {} if case["bits"] is None else {"bits": case["bits"]}
    return learner.lora_memory(model, case["rank"], list(case["targets"]), **options)


def _trained(learner: Learner, case: dict) -> dict:
    model = Toy(case["model"])
    kept = {name: ref(parameter) for name, parameter in model.named_parameters()}
    torch.manual_seed(case["rank"])  # who draws adapters as another does gets the same ones
    answer = outcome(lambda: _call(learner, model, case))
    shown = answer if "error" in answer else outcome(lambda: _adapted(model, case, kept))
    if "error" in shown:
        return {"raised": shown["error"]}
    return {"account": answer["returned"], **shown["returned"]}


def _held(learner: Learner, case: dict) -> dict:
    """What is held at rest, and for the backward pass, beside what it was before."""
    model, tokens = Toy(case["model"]).to(case["device"]), case["tokens"].to(case["device"])
    graph, at_rest = _graph_of(model, tokens)["held"], torch.cuda.memory_allocated()
    answer = outcome(lambda: _call(learner, model, case))
    if "error" in answer:
        return {"raised": answer["error"]}
    gc.collect(1)
    grew, state = torch.cuda.memory_allocated() - at_rest, _state(model, {})
    after = outcome(lambda: _graph_of(model, tokens))
    if "error" in after:
        return {"raised": after["error"]}
    moved, held = after["returned"]["moved"], after["returned"]["held"]
    return {"graph": graph, "grew": grew, "graph_after": held, "moved": moved, "state": state}


def _graph_of(model: nn.Module, tokens: torch.Tensor) -> dict[str, int]:
    """Bytes that the card holds for the loss's backward pass, and that were moved to the host meanwhile."""
    before = torch.cuda.memory_allocated()
    with gpulab.observe() as seen:
        loss = model(tokens).square().mean()
    held = torch.cuda.memory_allocated() - before
    del loss
    return {"held": held, "moved": sum(copy.bytes for copy in seen.copies if copy.kind == "DtoH")}


def _adapted(model: nn.Module, case: dict, kept: dict) -> dict:
    tokens = case["tokens"]
    modules = {name: model.get_submodule(name) for name in case["layers"]}
    found = {
        name: [_host(getattr(module, part, None)) for part in ("lora_a", "lora_b")] for name, module in modules.items()
    }
    state, carriers = _state(model, kept), _carriers(model)
    expected = {
        name: [(case["rank"], columns), (rows, case["rank"])] for name, (rows, columns) in case["layers"].items()
    }
    if any([tuple(getattr(part, "shape", ())) for part in found[name]] != expected[name] for name in modules):
        return {"found": found, "state": state, "carriers": carriers}
    weights = {name: _as_matrix(module) for name, module in modules.items()}
    with torch.no_grad():
        output = _host(model(tokens))
        for name, module in modules.items():
            module.lora_b.copy_(case["moved"][name])
    moved = {name: _as_matrix(module) for name, module in modules.items()}
    loss = model(tokens).square().mean()
    return {
        "found": found,
        "carriers": carriers,
        "state": state,
        "weights": weights,
        "output": output,
        "moved": moved,
        **_a_step(model, modules, loss),
        "state_after": _state(model, kept),
    }


def _carriers(model: nn.Module) -> dict[str, int]:
    """Every name of every module with an adapter, and which of them are the same."""
    modules = dict(model.named_modules(remove_duplicate=False))
    adapters = {name: id(module.lora_a) for name, module in modules.items() if hasattr(module, "lora_a")}
    numbers = {adapter: number for number, adapter in enumerate(dict.fromkeys(adapters.values()))}
    return {name: numbers[adapter] for name, adapter in adapters.items()}


def _as_matrix(module: nn.Module) -> torch.Tensor:
    """What the module does to the rows of an identity, in one dimension to four, without what it does to zeros."""
    columns = module.lora_a.shape[-1]
    with torch.no_grad():
        rows = torch.cat((torch.eye(columns), torch.zeros(1, columns)))
        out = torch.cat(
            (module(rows[0])[None], module(rows[1:2]), module(rows[None, 2:3])[0], module(rows[None, None, 3:])[0, 0])
        )
        return _host((out[:-1] - out[-1]).T)


def _a_step(model: nn.Module, modules: dict, loss: torch.Tensor) -> dict:
    """One backward pass and one step of AdamW over what requires a gradient."""
    trains = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trains or not loss.requires_grad:
        return {}
    optimizer = torch.optim.AdamW(trains, lr=0.1, weight_decay=0.0)
    loss.backward()
    gradients = {
        name: [_host(part.grad) for part in (module.lora_a, module.lora_b)] for name, module in modules.items()
    }
    with_gradient = sum(parameter.grad is not None for parameter in model.parameters())
    optimizer.step()
    moments = sum(state[name].nbytes for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq"))
    return {"gradients": gradients, "with_gradient": with_gradient, "moments": moments}


def _state(model: nn.Module, kept: dict) -> list[dict]:
    """Every parameter and buffer, each storage once; what was there before by its old name."""
    old = {id(parameter()): name for name, parameter in kept.items() if parameter() is not None}
    tensors = {tensor.untyped_storage().data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers())}
    return [
        {
            "was": old.get(id(tensor), ""),
            "trains": tensor.requires_grad,
            "dtype": str(tensor.dtype),
            "buffer": not isinstance(tensor, nn.Parameter),
            "nbytes": tensor.nbytes,
            "there": tensor.device == next(model.parameters()).device,
            "values": _host(tensor) if id(tensor) in old else None,
        }
        for tensor in tensors.values()
    ]


def _host(value: Any) -> Any:
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value
