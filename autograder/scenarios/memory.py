"""Runs the learner's functions for the chapter "Memory" and records what they did."""

import gc
from typing import Any
from weakref import ref

import torch
from torch import nn

from autograder.scenario_runner import Learner
from autograder.scenarios.observed import observe
from autograder.scenarios.outcome import outcome
from gpulab import cuda

_CARD = "virtual:H100"


def state_bytes(learner: Learner, case: dict) -> dict:
    """Ask about each recipe; then train a flat model with it for one step where the question says so."""
    answers, held = [], []
    for question in case["questions"]:
        recipe, stated = _typed(question["recipe"]), _typed(question["recipe"])
        answer = outcome(
            lambda: learner.state_bytes(question["parameters"], recipe, *question["ranks"], **question["named"])
        )
        if isinstance(answer.get("returned"), dict):
            answer["returned"] = dict(answer["returned"])  # a Counter is a dictionary too
        answers.append(answer | {"kept": recipe == stated})
        held.append(
            Rank(_typed(question["run"]), question["parameters"], *question["ranks"]).held()
            if question["run"]
            else None
        )
    return {"answers": answers, "held": held}


def _typed(recipe: object) -> object:
    """A recipe with ``torch`` dtypes for their names; a name of a recipe as it is."""
    if not isinstance(recipe, dict):
        return recipe
    typed = {key: getattr(torch, value) if isinstance(value, str) else value for key, value in recipe.items()}
    return typed | {"moments": tuple(getattr(torch, name) for name in recipe["moments"])}


class Rank:
    """The first of ``world`` ranks, after one training step: weights of a flat model, gradients, optimizer.

    The moments are those of SGD, SGD with momentum, Adam and Adam with ``amsgrad``, by their number.
    """

    def __init__(self, recipe: dict, parameters: int, stage: int = 0, world: int = 1) -> None:
        self._recipe, self._world = recipe, world
        whole = torch.linspace(-1, 1, parameters).to(recipe["weights"]).requires_grad_()
        whole.float().square().sum().backward()
        gradients = whole.grad.to(recipe["gradients"])
        kept = {"weights": whole.detach() if stage < 3 else self._share(whole)}
        kept["gradients"] = gradients if stage < 2 else self._share(gradients)
        part = self._share if stage else torch.clone
        kept |= {
            kind: part(x.detach()).to(recipe[kind])
            for kind, x in (("main_gradients", gradients), ("master", whole))
            if recipe[kind]
        }
        updated = torch.nn.Parameter(kept.get("master", part(whole.detach())))
        updated.grad = kept.get("main_gradients", part(gradients)).to(updated.dtype)
        self._kept = kept | {"moments": self._stepped(updated)}

    def _share(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's part of a flat buffer that is padded to be cut into equal ones."""
        padded = torch.nn.functional.pad(x.detach(), (0, -x.numel() % self._world))
        return padded.chunk(self._world)[0].clone()

    def _stepped(self, updated: torch.nn.Parameter) -> list[torch.Tensor]:
        makers = (torch.optim.SGD, _momentum, torch.optim.Adam, _amsgrad)
        optimizer = makers[len(self._recipe["moments"])]([updated])
        optimizer.step()
        return [value for name, value in optimizer.state[updated].items() if name != "step" and value is not None]

    def held(self) -> dict[str, int]:
        """Bytes of the storages, by kind."""
        lists = {kind: kept if isinstance(kept, list) else [kept] for kind, kept in self._kept.items()}
        return {kind: sum(x.untyped_storage().nbytes() for x in kept) for kind, kept in lists.items()}


def _momentum(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, momentum=0.9)


def _amsgrad(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, amsgrad=True)


def activation_bytes(learner: Learner, case: dict) -> dict:
    """Ask about each shape, watched; then measure the notebook's decoder where the question says so."""
    shapes = [_shape(question) for question in case["questions"]]
    with observe() as seen:
        answers = [
            outcome(lambda: learner.activation_bytes(shape, *q["how"]))
            for shape, q in zip(shapes, case["questions"], strict=True)
        ]
    answers = [
        answer | {"kept": shape == _shape(q)}
        for answer, shape, q in zip(answers, shapes, case["questions"], strict=True)
    ]
    measured = [learner.saved_bytes(_shape(q), *q["how"]) if q["measure"] else None for q in case["questions"]]
    return {"answers": answers, "measured": measured, "seen": seen.to_dict()}


def _shape(question: dict) -> dict:
    return question["shape"] | {"dtype": getattr(torch, question["shape"]["dtype"])}


def fits(learner: Learner, case: dict) -> dict:
    """Ask every question with the same two dictionaries, whose entries are others each time."""
    model: dict = {}
    gpu: dict = {}
    return {"answers": [_verdict(learner, question, model, gpu) for question in case["questions"]]}


def _verdict(learner: Learner, question: dict, model: dict, gpu: dict) -> dict:
    for held, expected in ((model, question["model"]), (gpu, question["gpu"])):
        held.clear()
        held.update(expected)
    answer = outcome(lambda: learner.fits(model, gpu, question["mode"], question["batch"], question["sequence"]))
    if isinstance(answer.get("returned"), dict):
        unchanged = (model, gpu) == (question["model"], question["gpu"])
        answer["returned"] = {**_copied(answer["returned"]), "unchanged": unchanged}
    return answer


def _copied(entries: dict) -> dict:
    """As it is now: the next question may be answered in the same dictionary."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in entries.items()}


# E9.4 lora_memory


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


def lora_memory(learner: Learner, case: dict) -> dict:
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
    answer = outcome(lambda: _call(learner, model, case))
    shown = answer if "error" in answer else outcome(lambda: _adapted(model, case, kept))
    if "error" in shown:
        return {"raised": shown["error"]}
    return {"account": answer["returned"], **shown["returned"]}


def _held(learner: Learner, case: dict) -> dict:
    """What is held at rest, and for the backward pass, beside what it was before."""
    model, tokens = Toy(case["model"]).to(case["device"]), case["tokens"].to(case["device"])
    graph, at_rest = _graph_of(model, tokens)[1], torch.cuda.memory_allocated()
    answer = outcome(lambda: _call(learner, model, case))
    if "error" in answer:
        return {"raised": answer["error"]}
    gc.collect(1)
    grew, state = torch.cuda.memory_allocated() - at_rest, _state(model, {})
    after = outcome(lambda: _graph_of(model, tokens)[1])
    if "error" in after:
        return {"raised": after["error"]}
    return {"graph": graph, "grew": grew, "graph_after": after["returned"], "state": state}


def _graph_of(model: nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The loss, and what the card holds for its backward pass."""
    before = torch.cuda.memory_allocated()
    loss = model(tokens).square().mean()
    return loss, torch.cuda.memory_allocated() - before


def _adapted(model: nn.Module, case: dict, kept: dict) -> dict:
    tokens = case["tokens"]
    modules = {name: model.get_submodule(name) for name in case["layers"]}
    found = {
        name: [_host(getattr(module, part, None)) for part in ("lora_a", "lora_b")] for name, module in modules.items()
    }
    state = _state(model, kept)
    expected = {
        name: [(case["rank"], columns), (rows, case["rank"])] for name, (rows, columns) in case["layers"].items()
    }
    if any([tuple(getattr(part, "shape", ())) for part in found[name]] != expected[name] for name in modules):
        return {"found": found, "state": state}
    weights = {name: _as_matrix(module) for name, module in modules.items()}
    with torch.no_grad():
        output = _host(model(tokens))
        for name, module in modules.items():
            module.lora_b.copy_(case["moved"][name])
    moved = {name: _as_matrix(module) for name, module in modules.items()}
    loss = model(tokens).square().mean()
    return {
        "found": found,
        "state": state,
        "weights": weights,
        "output": output,
        "moved": moved,
        **_a_step(model, modules, loss),
        "state_after": _state(model, kept),
    }


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
