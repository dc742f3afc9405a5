"""E9.4 lora_memory: cases and judge."""

from collections.abc import Iterator
from typing import Any

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem, type_name

_BLOCK = 64
_MOST = {8: 127, 4: 7}
_ALL = ("adapters", "frozen", "packed", "account")
_SHARED = ("names", "frozen", "packed", "account")
"""Of a layer with several names; where these are not understood, nothing else is asked."""
_SMALL, _ODD, _EVEN, _LARGE = ({"width": n, "wide": m} for n, m in ((20, 37), (5, 7), (16, 32), (128, 192)))


def _cases(sampler: Sampler) -> Iterator[Case]:
    """Blocks that end with a row and that do not, a single short one, an odd one; each width of bits."""
    widths = sampler.shuffled(None, 8, 4)
    for bits, size, targets in zip(widths, sampler.shuffled(_SMALL, _ODD, _EVEN), sampler.shuffled(*_TARGETS)):
        yield _case(_ALL, sampler, bits, targets, size)
    for bits in sampler.shuffled(8, 4):
        yield _case(_ALL, sampler, bits, ["up", "down"], _ODD, tied=True)
        yield _case(_ALL, sampler, bits, ["down", "head"], _SMALL)
    for bits in sampler.shuffled(16, 8, 4):
        yield _case(("held",), sampler, bits, ["up", "down"], _LARGE, device="cuda")
    for gate, bits in zip(("q_gate", "gate_q", "queue"), sampler.shuffled(16, 8, 4)):
        yield _case(("names",), sampler, bits, ["q"], _SMALL, gate=gate)
    yield _case(_SHARED, sampler, sampler.choice((8, 4)), ["q"], _SMALL, shared=True, tied=True)
    for targets, bits in zip(sampler.shuffled(["q"], ["query"], ["q", "query"]), sampler.shuffled(16, 8, 4)):
        yield _case(_SHARED, sampler, bits, targets, _SMALL, shared=True, alias=True)
    yield _case(
        ("errors",), sampler, sampler.choice((16, 8, 4)), ["up"], _ODD, gate="embed", refused=list(_refused(sampler))
    )


_TARGETS = (["up"], ["head", "down"], ["up", "down", "head"])


def _case(
    criteria: tuple[str, ...], sampler: Sampler, bits: int | None, targets: list[str], size: dict, **form: Any
) -> Case:
    device, refused = form.pop("device", "cpu"), form.pop("refused", [])
    model = {
        "vocabulary": sampler.integer(9, 14),
        "shared": False,
        "alias": False,
        "tied": False,
        "gate": "gate",
        **size,
        **form,
    }
    model["values"] = {name: _values(sampler, name, *shape) for name, shape in _shapes(model).items()}
    rank = sampler.choice((1, 2, 3, 4, 6))
    layers = {name: list(model["values"][f"{_own_name(name, model)}.weight"].shape) for name in _named(targets, model)}
    moved = {name: _scaled(sampler, rows, rank) for name, (rows, _) in layers.items()}
    if model["shared"]:
        moved = {
            name: moved[next(other for other in moved if _own_name(other, model) == _own_name(name, model))]
            for name in moved
        }
    tokens = torch.stack([_ids(sampler, model["vocabulary"]), _ids(sampler, model["vocabulary"])])
    job = {"model": model, "tokens": tokens, "device": device, "rank": rank, "targets": targets, "bits": bits}
    return Case(
        criteria, {**job, "layers": layers, "moved": moved, "refused": refused}, raises="ValueError" if refused else ""
    )


def _refused(sampler: Sampler) -> Iterator[dict]:
    """One thing wrong at a time: in a name alone, before and after names that are right."""
    yield from ({"rank": rank} for rank in (0, -sampler.integer(1, 4)))
    yield from ({"bits": bits} for bits in sampler.shuffled(0, 1, 2, 5, 12, 32, 64, -8))
    for wrong in sampler.shuffled("norm", "blocks", "embed", "blocks.0.up", "ups", "u", "weight", "0", "UP", "lora_a"):
        yield {"targets": [wrong]}
        yield {"targets": sampler.choice((["up", wrong], [wrong, "up"], ["down", wrong, "up"]))}
    yield {"targets": ["up", "norm"]}
    yield {"targets": ["norm", "up"]}


def _shapes(model: dict) -> dict[str, tuple[int, ...]]:
    """Of every parameter, each once."""
    width, wide, words = model["width"], model["wide"], model["vocabulary"]
    shapes: dict[str, tuple[int, ...]] = {"embed.weight": (words, width)}
    for number in range(2):
        block = f"blocks.{number}."
        if not (number and model["shared"]):
            name = block + ("query" if number and model["alias"] else "q")
            shapes |= {f"{name}.weight": (width, width), f"{name}.bias": (width,)}
        shapes |= {f"{block}{model['gate']}.weight": (width, width), f"{block}norm.weight": (width,)}
        shapes |= {f"{block}up.weight": (wide, width), f"{block}up.bias": (wide,), f"{block}down.weight": (width, wide)}
    return shapes if model["tied"] else {**shapes, "head.weight": (words, width)}


def _own_name(name: str, model: dict) -> str:
    """The name under which a layer's parameters are found first."""
    return "blocks.0.q" if model["shared"] and name in ("blocks.1.q", "blocks.1.query") else name


def _named(targets: list[str], model: dict) -> list[str]:
    """Every name of every layer that is meant."""
    second = "query" if model["alias"] else "q"
    names = [
        "blocks.0.q",
        f"blocks.1.{second}",
        *(f"blocks.{i}.{part}" for i in (0, 1) for part in ("up", "down")),
        "head",
    ]
    meant = {_own_name(name, model) for name in names if name.split(".")[-1] in targets}
    return [name for name in names if _own_name(name, model) in meant]


def _scaled(sampler: Sampler, *shape: int) -> torch.Tensor:
    values = sampler.tensor(*shape)
    return values / values.abs().max() / shape[-1] ** 0.5


def _values(sampler: Sampler, name: str, *shape: int) -> torch.Tensor:
    """Weights with one number far larger than the others; a block of zeros and one near 1e-6 where there are so many."""
    values = _scaled(sampler, *shape) + ("norm.weight" in name)
    if len(shape) == 2 and "embed" not in name:
        flat = values.view(-1)
        if len(flat) > 2 * _BLOCK:
            flat[_BLOCK : 2 * _BLOCK] = 0
        if len(flat) > 2 * _BLOCK and ("down" in name or "head" in name):  # beside a bias they could not be told
            flat[2 * _BLOCK : 3 * _BLOCK] *= 1e-5
        flat[sampler.integer(0, min(len(flat), _BLOCK) - 1)] *= 9
    return values


def _ids(sampler: Sampler, vocabulary: int) -> torch.Tensor:
    return torch.tensor(sampler.permutation(range(vocabulary))[:2])


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.raises:
        if problem := _errors_problem(case, evidence):
            yield Failure("errors", problem)
        return
    if "names" in case.criteria and (problem := _names_problem(case, evidence)):
        yield Failure("names", problem)
        return
    for criteria in (name for name in case.criteria if name != "names"):
        if problem := _PROBLEMS[criteria](case, evidence):
            yield Failure(criteria, problem)


def _errors_problem(case: Case, evidence: dict) -> str | None:
    if problem := count_problem(answers := evidence.get("answers"), len(case.inputs["refused"])):
        return problem
    for answer, change in zip(answers, case.inputs["refused"], strict=True):
        if problem := error_problem(answer, case.raises, _because(change)):
            return problem
        if answer["as_it_was"] is not True:
            return f"The model was changed before the error was raised that is due because {_because(change)}."
    return None


def _because(change: dict) -> str:
    """Why a call is refused."""
    if "rank" in change:
        return "`rank` is less than 1"
    if "bits" in change:
        return f"`bits` is {change['bits']}, none of 16, 8 and 4"
    wrong = next(name for name in change["targets"] if name not in ("up", "down"))
    if wrong == "embed":
        return "`embed` names an embedding, beside linear layers"
    return f"`{wrong}` names {'what is no linear layer' if wrong in ('norm', 'blocks', '0') else 'no module'}"


def _names_problem(case: Case, evidence: dict) -> str | None:
    """Which modules have adapters, under which names; nothing about the adapters."""
    carriers, layers = evidence.get("carriers"), case.inputs["layers"]
    if not isinstance(carriers, dict):
        return raised_problem(evidence.get("raised"))
    if not layers.keys() <= carriers.keys():
        if any(_own_name(name, case.inputs["model"]) in carriers for name in layers.keys() - carriers.keys()):
            return "A layer with several names has its adapter under some of them only."
        return "A layer whose name ends with a target, as a whole part, has no adapter."
    if not all(any(f"{name}.".startswith(f"{layer}.") for layer in layers) for name in carriers):
        return "A layer has an adapter that no target names: the part after the last dot has to be the target, the whole of it."
    if len({carriers[name] for name in layers}) != len(_owners(case)):
        return "A layer with several names has several adapters; it is one layer, adapted once."
    return None


def _bits(case: Case) -> int:
    return case.inputs["bits"] or 16


def _owners(case: Case) -> list[str]:
    """Of each target one name."""
    model = case.inputs["model"]
    return [name for name in case.inputs["layers"] if name == _own_name(name, model)]


def _adapters_problem(case: Case, evidence: dict) -> str | None:
    """Which parameters train, what they start from, what the layers make of them."""
    rank, found = case.inputs["rank"], evidence["found"]
    for name, (rows, columns) in case.inputs["layers"].items():
        for part, shape in zip(found[name], ((rank, columns), (rows, rank)), strict=True):
            if tensor_problem(part, torch.empty(shape)):
                return "A target has no `lora_a` of shape (rank, in_features) and `lora_b` of (out_features, rank), both in float32."
    trains = sorted(entry["nbytes"] for entry in evidence["state"] if entry["trains"])
    if trains != sorted(part.nbytes for name in _owners(case) for part in found[name]):
        return (
            "The parameters that require gradients are not the adapters of the targets, one pair each: look "
            "at the names, and at what must be frozen."
        )
    if any(not entry["there"] for entry in evidence["state"]):
        return "The adapters are not where the model is."
    return _start_problem(case, found) or _moved_problem(case, evidence)


def _start_problem(case: Case, found: dict) -> str | None:
    owned = [found[name] for name in _owners(case)]
    if any(b.any() for _, b in owned):
        return "`lora_b` does not start with zeros: the model's output changes before its first step."
    numbers = torch.cat([a.flatten() for a, _ in owned])
    if not numbers.isfinite().all() or len(numbers.unique()) < 0.9 * len(numbers):
        return "`lora_a` does not start with random numbers, others in each layer: where it is 0 as `lora_b` is, neither gets a gradient."
    return None


def _moved_problem(case: Case, evidence: dict) -> str | None:
    if "output" not in evidence:
        return "The adapters have the wrong shape."
    for name, (a, _) in evidence["found"].items():
        expected = 16 / case.inputs["rank"] * case.inputs["moved"][name] @ a
        if not _near(
            evidence["moved"][name] - evidence["weights"][name],
            expected,
            1e-4 * float(evidence["weights"][name].abs().max()),
        ):
            return "With other values in `lora_b` a target does not add 16 / rank times x A^T B^T."
    expected = _forward(case, _effective(case, evidence))
    if not _near(evidence["output"], expected, 1e-5):
        return "Before the first step the model's output is not that of its frozen layers."
    return None


def _near(found: Any, expected: torch.Tensor, slack: float) -> bool:
    if tensor_problem(found, expected):
        return False
    return bool((found - expected).abs().max() <= 1e-3 * expected.abs().max() + slack)


def _effective(case: Case, evidence: dict) -> dict[str, torch.Tensor]:
    """Every parameter of the model, the targets' weights as the layers were seen to use them."""
    model = case.inputs["model"]
    used = {f"{name}.weight": evidence["weights"][name] for name in _owners(case)}
    return {**model["values"], **used}


def _forward(case: Case, values: dict[str, torch.Tensor]) -> torch.Tensor:
    """The model's logits, from its parameters."""
    model, linear = case.inputs["model"], torch.nn.functional.linear
    x = values["embed.weight"][case.inputs["tokens"]]
    for number in range(2):
        block = f"blocks.{number}."
        q = _own_name(block + ("query" if number and model["alias"] else "q"), model)
        x = x + linear(x, values[f"{q}.weight"], values[f"{q}.bias"]) * torch.tanh(
            linear(x, values[f"{block}{model['gate']}.weight"])
        )
        normed = values[f"{block}norm.weight"] * x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        x = x + linear(
            torch.tanh(linear(normed, values[f"{block}up.weight"], values[f"{block}up.bias"])),
            values[f"{block}down.weight"],
        )
    return linear(x, values["embed.weight" if model["tied"] else "head.weight"])


def _frozen_problem(case: Case, evidence: dict) -> str | None:
    """Nothing else trains, is replaced or changes; gradients reach every adapter."""
    remain = case.inputs["model"]["values"].keys() - (
        {f"{name}.weight" for name in _owners(case)} if _bits(case) < 16 else set()
    )
    for state in (evidence["state"], evidence.get("state_after", evidence["state"])):
        old = {entry["was"]: entry for entry in state if entry["was"]}
        if missing := remain - old.keys():
            return f"{_what(min(missing))} was replaced: whoever holds the old one, an optimizer or a tied layer, does not see the new one."
        if any(old[name]["trains"] for name in remain):
            return "What is no adapter still requires a gradient."
        if any(not torch.equal(old[name]["values"], case.inputs["model"]["values"][name]) for name in remain):
            return "A parameter that is not packed has changed its values."
    adapters = sum(entry["trains"] for entry in evidence["state"])
    if (
        "gradients" not in evidence
        or evidence["with_gradient"] != 2 * len(_owners(case))
        or adapters != 2 * len(_owners(case))
    ):
        return "After a backward pass the parameters with a gradient are not the adapters' alone."
    if evidence["moments"] != sum(8 * part.numel() for name in _owners(case) for part in evidence["found"][name]):
        return "The optimizer has state for what is frozen, or none for an adapter."
    return None if _adapters_problem(case, evidence) else _gradients_problem(case, evidence)


def _what(name: str) -> str:
    kinds = {"embed": "The embedding", "norm": "A norm's parameter", "bias": "A bias"}
    return next((kind for part, kind in kinds.items() if part in name), "The weight of a frozen layer")


def _gradients_problem(case: Case, evidence: dict) -> str | None:
    values, factors = _effective(case, evidence), {}
    for name in _owners(case):
        factors[name] = [
            evidence["found"][name][0].clone().requires_grad_(),
            case.inputs["moved"][name].clone().requires_grad_(),
        ]
        a, b = factors[name]
        values[f"{name}.weight"] = values[f"{name}.weight"] + 16 / case.inputs["rank"] * b @ a
    _forward(case, values).square().mean().backward()
    for name, parts in factors.items():
        for part, found in zip(parts, evidence["gradients"][name], strict=True):
            if not _near(found, part.grad, 1e-6):
                return (
                    "An adapter's gradient is wrong: it comes back through every layer above, the frozen ones as well."
                )
    return None


def _packed_problem(case: Case, evidence: dict) -> str | None:
    bits = _bits(case)
    buffers = sorted((entry["dtype"], entry["nbytes"]) for entry in evidence["state"] if entry["buffer"])
    if "weights" not in evidence:
        return "The adapters have the wrong shape."
    started = [
        name for name in _owners(case) if not evidence["found"][name][1].any()
    ]  # else not the weight alone is seen
    for name in started:
        weight = case.inputs["model"]["values"][f"{name}.weight"]
        if problem := _weight_problem(evidence["weights"][name], weight, bits):
            return problem
    if buffers != sorted(_buffers(case)):
        return "The buffers are not the packed integers, in as many bytes as they need, and a scale in float32 for each block of 64."
    if sum(entry["nbytes"] for entry in evidence["state"]) != sum(_account(case).values()) - 3 * _adapters(case):
        return "The model has parameters that are neither its own nor an adapter's."
    return None


def _weight_problem(found: Any, weight: torch.Tensor, bits: int) -> str | None:
    if tensor_problem(found, weight):
        return "A target does not give what its layer gave."
    if bits == 16:
        same = (found - weight).abs().max() <= 1e-5 * weight.abs().max()
        return None if same else "With 16 bits a target's weight is not what it was."
    scales = _scales(weight, bits)
    steps = torch.where(scales > 0, found / scales.where(scales > 0, 1), found)
    if (steps - steps.round()).abs().max() > 1e-2:
        return (
            "The weights in use are not integers times the scale of their block, which is in float32, its largest absolute value by "
            "127 or 7. Blocks run on over the ends of rows, and one of zeros stays zeros."
        )
    if ((found - weight).abs() > 0.505 * scales).any():
        due = torch.where(scales > 0, weight / scales.where(scales > 0, 1), weight)
        return _why_other_integers(steps.flatten().round(), due.flatten(), bits)
    return None


def _why_other_integers(steps: torch.Tensor, due: torch.Tensor, bits: int) -> str:
    """``due``: quotients, not rounded yet."""
    off = (steps - due).abs() > 0.505
    if (steps[off] == 0).all():
        return "Small weights come back as zeros: a scale has no least value, it is the block's largest absolute value by 127 or 7."
    if bits == 4 and ((steps - due).abs()[off] > 7.4).all() and ((steps - due).abs()[off] - 16).abs().max() < 0.6:
        return "Some 4-bit integers come back with another sign: half a byte is from 0 to 15 when it is cut out, and an integer from -7 to 7."
    if not off[:-1].any():
        return (
            "Only the last weight comes back as another: the last of an odd number of integers has a byte of its own."
        )
    paired = len(due) // 2 * 2
    if bits == 4 and ((steps[:paired].view(-1, 2).flip(1) - due[:paired].view(-1, 2)).abs() < 0.505).all():
        return "Two integers in a byte come back in each other's place."
    if (steps - due).abs().max() <= 1.01:
        return "A dequantized weight is off by more than half a step: round to the nearest integer."
    return "A weight comes back as another integer times its scale: look at the order in which integers are packed and unpacked, and at their signs."


def _scales(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """For each number that of its block."""
    flat = weight.flatten()
    scales = [block.abs().max().expand(len(block)) / _MOST[bits] for block in flat.split(_BLOCK)]
    return torch.cat(scales).view(weight.shape)


def _buffers(case: Case) -> Iterator[tuple[str, int]]:
    for name in _owners(case):
        rows, columns = case.inputs["layers"][name]
        if _bits(case) < 16:
            yield "torch.float32", 4 * (-(-rows * columns // _BLOCK))
            yield ("torch.int8", rows * columns) if _bits(case) == 8 else ("torch.uint8", (rows * columns + 1) // 2)


def _adapters(case: Case) -> int:
    return sum(4 * case.inputs["rank"] * sum(case.inputs["layers"][name]) for name in _owners(case))


def _account(case: Case) -> dict[str, int]:
    adapters, buffers = _adapters(case), list(_buffers(case))
    packed = {f"{name}.weight" for name in _owners(case)} if buffers else set()
    remain = sum(values.nbytes for name, values in case.inputs["model"]["values"].items() if name not in packed)
    scales = sum(nbytes for dtype, nbytes in buffers if dtype == "torch.float32")
    integers = sum(nbytes for dtype, nbytes in buffers if dtype != "torch.float32")
    return {
        "frozen": remain + integers,
        "scales": scales,
        "adapters": adapters,
        "gradients": adapters,
        "optimizer": 2 * adapters,
    }


def _growth(case: Case) -> int:
    """How many bytes more the card may hold than before: its allocator gives out 512 at a time."""
    buffers, owners = list(_buffers(case)), _owners(case)
    gone = sum(_weight_bytes(case)) if buffers else 0
    return (
        _adapters(case)
        + sum(nbytes for _, nbytes in buffers)
        - gone
        + 512 * (2 * len(owners) + len(buffers) + len(owners))
    )


def _weight_bytes(case: Case) -> list[int]:
    return [4 * rows * columns for rows, columns in (case.inputs["layers"][name] for name in _owners(case))]


def _held_problem(case: Case, evidence: dict) -> str | None:
    """A weight is many times what a few rows of activations take."""
    if not all(entry["there"] for entry in evidence["state"]):
        return "The adapters are not where the model is."
    if "graph_after" not in evidence:
        return "A target has no adapters of the expected shapes."
    if evidence["grew"] > _growth(case):
        return "More memory is held than the model's parameters and buffers take: are the original weights freed?"
    if evidence["graph_after"] > evidence["graph"] + min(_weight_bytes(case)) // 2:
        return (
            "Between the forward and the backward pass a copy of a weight is held, unpacked or merged with its adapter: a product saves what it "
            "multiplies with, unless you say what to save."
        )
    if evidence["moved"]:
        return "The forward pass copies to the host: a weight that is kept there for the backward pass is held, too."
    return None


def _account_problem(case: Case, evidence: dict) -> str | None:
    found, expected = evidence["account"], _account(case)
    if not isinstance(found, dict) or set(found) != set(expected):
        return f"The function returned {type_name(found)}; expected a dictionary with the five entries."
    if (
        found == _measured(evidence["state"])
        and all(type(n) is int for n in found.values())
        and not _names_problem(case, evidence)
    ):
        return None
    for name, nbytes in expected.items():
        if type(found[name]) is not int:
            return f"`{name}` is {type_name(found[name])}; expected an int."
        if found[name] != nbytes:
            return _MISCOUNTED[name]
    return None


def _measured(state: list[dict]) -> dict[str, int]:
    """The account of the model as the function left it: what is packed too wide is another fault."""
    trained = sum(entry["nbytes"] for entry in state if entry["trains"])
    scales = sum(entry["nbytes"] for entry in state if entry["buffer"] and "float" in entry["dtype"])
    frozen = sum(entry["nbytes"] for entry in state) - trained - scales
    return {"frozen": frozen, "scales": scales, "adapters": trained, "gradients": trained, "optimizer": 2 * trained}


_MISCOUNTED = {
    "frozen": "`frozen` is wrong: what does not train, each parameter once, biases, norms and embeddings in float32, packed weights in the bytes of their integers.",
    "scales": "`scales` is wrong: 4 bytes for each block of 64 numbers, the last one of each weight included.",
    "adapters": "`adapters` is wrong: A and B of every target, in float32.",
    "gradients": "`gradients` is wrong: only what trains has one.",
    "optimizer": "`optimizer` is wrong: two moments for what trains, and nothing for what is frozen.",
}
_PROBLEMS = {
    "adapters": _adapters_problem,
    "frozen": _frozen_problem,
    "packed": _packed_problem,
    "held": _held_problem,
    "account": _account_problem,
}

exercise = Exercise(
    criteria=(
        Criterion(
            "adapters",
            2,
            "only the adapters of the targets train; they start with no effect and add 16 / rank times x A^T B^T",
        ),
        Criterion(
            "frozen",
            2,
            "all other parameters stay frozen, without gradients or moments, and gradients flow through them",
        ),
        Criterion("packed", 2, "quantized weights are within half a step, and packed without waste"),
        Criterion("held", 1, "no copy of a weight is held from the forward to the backward pass"),
        Criterion("account", 2, "the bytes by kind are those measured"),
        Criterion("names", 1, "the last part of a name decides, and a layer with several names is one"),
        Criterion(
            "errors",
            1,
            "invalid targets, ranks and bits are refused with ValueError, and the model is unchanged",
            ("names",),
        ),
    ),
    cases=_cases,
    judge=_judge,
)
