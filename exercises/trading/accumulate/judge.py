"""E10.2 accumulate: cases and judge."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import changed_problem, count_problem, error_problem, raised_problem, tensor_problem
from autograder.judge.notes import noted, stretches
from gpulab import Observation
from gpulab.cuda.machine.blocks import round_size

_SLACK = 3072
"""Bytes: a few scalars, each of which takes 512 of the allocator's."""
_NUMBERS = 1536
"""Bytes of a few scalars more for each micro-batch before."""
_PADDING = -100
_EVEN = 12
"""Tokens of a micro-batch where all have as many."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    no_decay = {"weight_decay": 0.0}
    yield _case(("steps", "syncs", "losses", "host"), sampler, [_EVEN] * 4, 2, padded=False)
    yield _case(
        ("steps", "syncs", "host"),
        sampler,
        [_EVEN] * 2,
        1,
        padded=False,
        feed="list",
        optimizer="AdamW",
        options=no_decay,
    )
    yield from _ragged_cases(sampler)
    yield from _group_cases(sampler)
    yield from _gradient_cases(sampler)
    for what, number in sampler.shuffled(("model", 3), ("loss", 3), ("feed", 4)):
        feed = sampler.choice(("iterator", "generator"))
        yield _case(("syncs",), sampler, [_EVEN] * 4, 2, feed=feed, stops={what: number}, raises="ArithmeticError")
    for group, (feed, rows) in enumerate(sampler.shuffled(("iterator", 8), ("generator", 9)), start=2):
        yield _case(
            ("memory",),
            sampler,
            [150, 70, 149, 8],
            group,
            feed=feed,
            rows=rows,
            optimizer=sampler.choice(("SGD", "AdamW")),
        )


def _ragged_cases(sampler: Sampler) -> Iterator[Case]:
    """Of a group one micro-batch has many tokens, one a few, and one none at all."""
    few, many = sampler.integer(1, 2), sampler.integer(18, 24)
    criteria = ("weights", "syncs", "host")
    yield _case((*criteria, "losses"), sampler, [many, few, 0, few, many, 9], 3, feed="iterator")
    yield _case(criteria, sampler, [few, many, 11, 0], 2, feed="generator", optimizer="AdamW", groups=True)
    wide = {"dtype": torch.float64, "groups": True, "options": {"momentum": 0.5}}
    yield _case((*criteria, "losses"), sampler, [0, few, many], 3, feed="list", **wide)


def _group_cases(sampler: Sampler) -> Iterator[Case]:
    """Micro-batches that are left at the end, few or all of them; groups without a token; groups that are none."""
    momentum, no_decay = {"momentum": 0.9}, {"weight_decay": 0.0}
    yield _case(("groups", "syncs", "host"), sampler, [_EVEN] * 4, 3, padded=False, options=momentum)
    yield _case(("groups", "syncs"), sampler, [_EVEN] * 2, sampler.integer(3, 9), padded=False, feed="generator")
    yield _case(
        ("groups", "host"), sampler, [_EVEN, _EVEN, 0, 0, _EVEN], 2, padded=False, options=momentum, feed="generator"
    )
    yield _case(
        ("groups", "host"), sampler, [0, 0, _EVEN, _EVEN, 0], 2, padded=False, optimizer="AdamW", options=no_decay
    )
    for wrong in sampler.shuffled(0, -1, -3):
        yield _case(("groups",), sampler, [_EVEN] * 2, wrong, padded=False, old=2.0, raises="ValueError")


def _gradient_cases(sampler: Sampler) -> Iterator[Case]:
    decay = {"weight_decay": 0.5}
    yield _case(("gradients",), sampler, [_EVEN] * 2, 2, padded=False, old=7.0, caller_keeps=True, options=decay)
    yield _case(
        ("gradients",),
        sampler,
        [_EVEN] * 2,
        1,
        padded=False,
        old=math.nan,
        groups=True,
        optimizer="AdamW",
        options=decay,
    )
    yield _case(("gradients",), sampler, [_EVEN], 2, padded=False, epochs=2, options=decay)
    yield _case(("gradients",), sampler, [], 2, old=-3.0, caller_keeps=True)
    yield _case(("gradients",), sampler, [0, 0], 2, padded=False, old=5.0, options=decay)
    yield _case(("gradients",), sampler, [_EVEN, _EVEN, 4, 4], 2, rows=4, flat=True, groups=True, options=decay)


def _case(
    criteria: tuple[str, ...],
    sampler: Sampler,
    tokens: list[int],
    group: int,
    dtype: torch.dtype = torch.float32,
    options: dict = {},
    padded: bool = True,
    rows: int = 0,
    flat: bool = False,
    epochs: int = 1,
    raises: str = "",
    **others: Any,
) -> Case:
    """``tokens`` of each micro-batch. ``flat``: the last two of them have sequences of one token.

    Where none is ``padded`` each element is a token, or none is. There and in the ``flat`` case no token is of class 0.
    """
    width, classes = sampler.integer(36, 40) if rows else sampler.integer(20, 24), sampler.integer(17, 20)
    sizes = [(width, width), (width,), (classes, width), (classes,), (classes, 3), (classes,), (width,)]
    inputs = {
        "weights": [sampler.within_one(*size, dtype=dtype) for size in sizes],
        "epochs": [_micro_batches(sampler, tokens, width, classes, dtype, padded, rows, flat) for _ in range(epochs)],
        "group": group,
        "options": {"lr": sampler.choice((0.125, 0.25)), **options},
    }
    usual = {"optimizer": "SGD", "groups": False, "old": None, "caller_keeps": False, "feed": "iterator", "stops": {}}
    return Case(criteria, inputs | usual | others, raises)


def _micro_batches(
    sampler: Sampler, tokens: list[int], width: int, classes: int, dtype, padded: bool, rows: int, flat: bool
) -> list:
    made = []
    for number, count in enumerate(tokens):
        if flat and number >= len(tokens) - 2:
            shape = (rows + number, 1)
        elif padded:
            shape = (rows + number, 20) if rows else sampler.choice(((4, 6), (3, 9), (5, 5), (26, 1)))
        else:
            shape = sampler.choice(((3, 4), (2, 6), (6, 2)))
        order = sampler.tensor(*shape, dtype=torch.int64) - 1
        targets = order % classes if padded and not flat else 1 + order % (classes - 1)
        targets[order >= count] = _PADDING
        made.append([2 * sampler.within_one(*shape, width, dtype=dtype), targets])
    return made


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    evidence = evidence | {"taken": _with_notes(evidence)}
    taken = evidence["taken"]
    if problem := count_problem(taken, len(case.inputs["epochs"])):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
    elif case.raises:
        if problem := error_problem(taken[0], case.raises) or _stopped_problem(case, taken[0]):
            yield from (Failure(criterion, problem) for criterion in case.criteria)
    elif errors := [each["error"] for each in taken if "error" in each]:
        yield from (Failure(criterion, raised_problem(errors[0])) for criterion in case.criteria)
    elif problem := _calls_problem(case.inputs, evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
    else:
        expected, parameters, sums = _reference(case.inputs)
        problems = {
            "steps": lambda: (
                _steps_problem(expected, parameters, evidence) or _untouched_problem(case.inputs, evidence)
            ),
            "weights": lambda: _weights_problem(expected, evidence),
            "groups": lambda: _groups_problem(expected, parameters, evidence),
            "gradients": lambda: _gradients_problem(case, expected, parameters, evidence),
            "syncs": lambda: _syncs_problem(case.inputs, taken),
            "memory": lambda: _memory_problem(case.inputs, taken),
            "losses": lambda: _losses_problem(case.inputs, taken) or _values_problem(sums, expected, taken),
            "host": lambda: _host_problem(case.inputs, taken, Observation.from_dict(evidence["seen"])),
        }
        yield from (Failure(criterion, problem) for criterion in case.criteria if (problem := problems[criterion]()))


def _with_notes(evidence: dict) -> list[dict]:
    """What each epoch came to, with what was noted meanwhile."""
    return [
        each | _use(stretch) for each, stretch in zip(evidence["taken"], stretches(evidence, "begins"), strict=True)
    ]


def _use(stretch: dict) -> dict:
    """Of one epoch: ``calls`` of the model, ``values`` of the losses, ``steps``, and how often it was ``asked`` for a micro-batch."""
    calls, steps, asked = [], [], 0
    for note in stretch["notes"]:
        word, value = note if isinstance(note, list) else (note, None)
        if word == "asked":
            asked += 1
        elif word == "called":
            calls.append(value | {"asked": asked, "depths": [], "last_us": -1.0})
        elif word == "accumulated" and calls:
            depth, calls[-1]["last_us"] = value
            calls[-1]["depths"].append(depth)
        elif word == "stepping":
            graphs = sum(gradient is not None and gradient["graph"] for gradient in value)
            steps.append({"after": len(calls), "gradients": [*map(_tensor, value)], "graphs": graphs})
    return {"calls": calls, "steps": steps, "asked": asked, "values": noted(stretch, "loss")}


def _tensor(gradient: dict | None) -> torch.Tensor | None:
    if gradient is None:
        return None
    values = torch.frombuffer(bytearray(gradient["values"]), dtype=getattr(torch, gradient["dtype"]))
    return values.reshape(gradient["shape"])


def _groups_of(inputs: dict, pairs: list) -> list[list]:
    return [pairs[first : first + inputs["group"]] for first in range(0, len(pairs), inputs["group"])]


def _tokens(pairs: list) -> int:
    return sum(int((targets != _PADDING).sum()) for _, targets in pairs)


def _reference(inputs: dict) -> tuple[list[list[dict]], list[torch.Tensor], list[list[tuple]]]:
    """Of each call its steps, ``after`` how many micro-batches and with which gradients; the parameters at the end.

    And of each micro-batch after how many steps of its call it comes, and the sum of its losses, a tensor.
    """
    *layers, spare, gain, mix = (weight.clone() for weight in inputs["weights"])
    trained = [parameter.requires_grad_() for parameter in (spare, mix, *layers)]
    parameters = [spare, gain, mix, *layers]
    optimizer = getattr(torch.optim, inputs["optimizer"])(_parameter_groups(trained, inputs), **inputs["options"])
    expected, sums = [], []
    for pairs in inputs["epochs"]:
        steps, losses, after = [], [], 0
        for group in _groups_of(inputs, pairs):
            after += len(group)
            optimizer.zero_grad()
            for x, targets in group:
                losses.append((len(steps), _sum_of_losses(x, targets, layers, gain, mix)))
            if not (tokens := _tokens(group)):
                continue
            for _, loss in losses[-len(group) :]:
                (loss / tokens).backward()
            steps.append(
                {"after": after, "gradients": [None if p.grad is None else p.grad.clone() for p in parameters]}
            )
            optimizer.step()
        expected.append(steps)
        sums.append([(before, loss.detach()) for before, loss in losses])
    return expected, [parameter.detach() for parameter in parameters], sums


def _sum_of_losses(
    x: torch.Tensor, targets: torch.Tensor, layers: list, gain: torch.Tensor, mix: torch.Tensor
) -> torch.Tensor:
    if x.shape[1] > 1:
        x = x + x.roll(1, 1) * mix
    weight, bias, head, shift = layers
    outputs = (torch.tanh(x @ weight.T + bias) @ head.T + shift) * gain
    return cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=_PADDING, reduction="sum")


def _parameter_groups(trained: list[torch.Tensor], inputs: dict) -> list:
    if not inputs["groups"]:
        return trained
    slow, fast = [p for p in trained if p.ndim == 2], [p for p in trained if p.ndim == 1]
    return [{"params": slow}, {"params": fast, "lr": 2 * inputs["options"]["lr"]}]


def _calls_problem(inputs: dict, evidence: dict) -> str | None:
    for each, pairs in zip(evidence["taken"], inputs["epochs"], strict=True):
        if [call["shape"] for call in each["calls"]] != [list(x.shape) for x, _ in pairs]:
            return (
                "The model was not called once, as `model(inputs)`, for each micro-batch in turn: one that is left out, put "
                "together with others or taken again makes another step."
            )
        if len(each["values"]) != len(pairs):
            return "The loss function was not called once for each micro-batch."
    return None


def _untouched_problem(inputs: dict, evidence: dict) -> str | None:
    if inputs["feed"] != "list":
        return None
    for found, pairs in zip(evidence["listed"], inputs["epochs"], strict=True):
        if problem := count_problem(found, len(pairs)):
            return f"The caller's list is no longer what it was. {problem}"
        for pair, given in zip(found, pairs, strict=True):
            for part, right in zip(pair, given, strict=True):
                if problem := changed_problem(part, right, "a micro-batch"):
                    return problem
    return None


def _steps_problem(expected: list[list[dict]], parameters: list[torch.Tensor], evidence: dict) -> str | None:
    for each, steps in zip(evidence["taken"], expected, strict=True):
        if [step["after"] for step in each["steps"]] != [step["after"] for step in steps]:
            return "The optimizer was not asked for one step after each group of micro-batches."
        if not _same_in_all(each["steps"], steps):
            return (
                "With as many tokens in each micro-batch, `.grad` is not the gradient of the mean loss over the tokens of the "
                "group when the optimizer steps: each backward pass adds to it the gradient of a sum."
            )
    if count_problem(evidence["parameters"], len(parameters)) or not all(
        map(_near, evidence["parameters"], parameters)
    ):
        return "The parameters are not those of the steps: something else than `optimizer.step()` changed one, or a gradient did."
    return None


def _same_in_all(found: list[dict], expected: list[dict]) -> bool:
    """Whether as many steps were made, each with the gradients that are due."""
    if len(found) != len(expected):
        return False
    return all(
        _same_gradients(step["gradients"], right["gradients"]) for step, right in zip(found, expected, strict=True)
    )


def _same_gradients(found: list, expected: list) -> bool:
    """Where a gradient is due; whether one is there that is not due is another question."""
    return len(found) == len(expected) and all(
        _near(one, right) for one, right in zip(found, expected, strict=True) if right is not None
    )


def _near(found: object, expected: torch.Tensor) -> bool:
    if tensor_problem(found, expected):
        return False
    small = 1e-9 if expected.dtype == torch.float64 else 3e-4
    return bool((found - expected).norm() <= small * expected.norm() + small * 1e-3)


def _weights_problem(expected: list[list[dict]], evidence: dict) -> str | None:
    for each, steps in zip(evidence["taken"], expected, strict=True):
        if not _same_in_all(each["steps"], steps):
            return (
                "With unequal numbers of tokens a gradient is not that of the mean over the group's tokens: each token counts "
                "the same, and a mean of the micro-batches' means gives those of a short one more. How many there are is known "
                "at the group's end."
            )
    return None


def _groups_problem(expected: list[list[dict]], parameters: list[torch.Tensor], evidence: dict) -> str | None:
    for each, steps in zip(evidence["taken"], expected, strict=True):
        found = [step["after"] for step in each["steps"]]
        right = [step["after"] for step in steps]
        if missing := set(right) - set(found):
            if max(missing) < len(each["calls"]):
                return "A group made no step, or made it before its last micro-batch."
            return "The micro-batches that were left at the end made no step: their gradients are lost, or leak into the next."
        if found != right:
            return (
                "There was a step that no group is due: a group without a token makes none, nor does a part of a group."
            )
        if len(each["entries"]) != len(right):
            return "The list does not have one entry for each step: a group that made none has no mean."
        if not _same_in_all(each["steps"], steps):
            return (
                "The gradient of a step is wrong where a group is left at the end or has no token: a shorter group is divided "
                "by its own tokens, and of no tokens there is no mean."
            )
    if count_problem(evidence["parameters"], len(parameters)) or not all(
        map(_near, evidence["parameters"], parameters)
    ):
        return "The parameters are not those of the groups' steps."
    return None


def _gradients_problem(
    case: Case, expected: list[list[dict]], parameters: list[torch.Tensor], evidence: dict
) -> str | None:
    for each, steps in zip(evidence["taken"], expected, strict=True):
        firsts = each["calls"][:: case.inputs["group"]]
        if any(call["old"] for call in firsts):
            return "A group began while a parameter still held a gradient: backward adds to it, and NaN stays NaN."
        if each["old"]:
            return (
                "After the return a parameter holds a gradient: of a step that is over, of another call, or of zeros."
            )
        for step, right in zip(each["steps"], steps):
            if step["graphs"]:
                return "A gradient requires a gradient itself: a graph was made of the backward pass."
            for found, gradient in zip(step["gradients"], right["gradients"]):
                if gradient is None and found is not None:
                    return "A parameter that took no part in the group had a gradient when the optimizer stepped: decay moves it."
            if not _same_gradients(step["gradients"], right["gradients"]):
                return "Gradients from before, of another group or of another call, count in a step."
        if len(each["steps"]) != len(steps):
            return "There are more or fewer steps than groups with a token."
    if count_problem(evidence["parameters"], len(parameters)) or not all(
        map(_near, evidence["parameters"], parameters)
    ):
        return "The parameters are not those of the steps without the gradients from before."
    trained = len(parameters) - 1
    if problem := count_problem(evidence["kept"], trained if case.inputs["caller_keeps"] else 0):
        return problem
    if any(not bool((gradient == case.inputs["old"]).all()) for gradient in evidence["kept"]):
        return "Gradients from before were written to, and the caller still uses them: let go of them instead."
    return None


def _is_last(inputs: dict, number: int, calls: list) -> bool:
    return (number + 1) % inputs["group"] == 0 or number + 1 == len(calls)


def _syncs_problem(inputs: dict, taken: list[dict]) -> str | None:
    for each in taken:
        for number, call in enumerate(each["calls"]):
            if not call["depths"]:
                return (
                    "A micro-batch had no backward pass of its own, on which the exchange with the other ranks hangs."
                )
            inside = [depth > 0 for depth in (call["depth"], *call["depths"])]
            if _is_last(inputs, number, each["calls"]) and any(inside):
                return (
                    "The last micro-batch of a group ran inside `no_sync()`: its gradients never reach the other ranks, and the "
                    "parameters drift apart. That a group ends early is known when the next micro-batch was asked for."
                )
            if not _is_last(inputs, number, each["calls"]) and not all(inside):
                return (
                    "Before the last micro-batch of a group the model's call or the backward pass ran outside of `no_sync()`: "
                    "gradients crossed between the ranks more than once in a step."
                )
        if each["depth"]:
            return "A context of `no_sync` is still entered after the return."
    return None


def _stopped_problem(case: Case, each: dict) -> str | None:
    if case.raises == "ValueError":
        if each["asked"] or each["calls"] or each["steps"]:
            return "A group of less than one was refused only after work had begun."
        if not each["old"]:
            return "A group of less than one was refused, and the gradients were gone."
        return None
    if each["depth"]:
        return "After an exception a context of `no_sync` is still entered: later gradients would never be exchanged."
    if len(each["steps"]) > 1 or not (each["steps"] or "feed" in case.inputs["stops"]):
        return "An exception broke off a group, and its part made a step; or a whole group before it made none."
    return None


def _memory_problem(inputs: dict, taken: list[dict]) -> str | None:
    for each, pairs in zip(taken, inputs["epochs"], strict=True):
        bare = each["before"]["all"] - each["before"]["gradients"] - each["before"]["state"]
        sizes = [sum(round_size(part.nbytes) for part in pair) for pair in pairs]
        for number, call in enumerate(each["calls"]):
            if call["asked"] > number + 2:
                return "More micro-batches were asked for than the one that the model is called with and the next."
            if call["graphs"]:
                return "When the model was called, the graph of a micro-batch that is done was alive: a loss with its graph keeps it."
            beside = call["all"] - bare - call["gradients"] - call["state"] - sum(sizes[number : number + 2])
            if beside > _SLACK + _NUMBERS * number:
                return (
                    "When the model was called, more than its micro-batch, the next, gradients and numbers was held: a name that "
                    "keeps an output, a loss with its graph, gradients that were dropped or copied, micro-batches that are done."
                )
        after = each["after"]
        if each["alive"] or after["all"] > bare + after["gradients"] + after["state"] + _SLACK:
            return "After the return something of the forward passes is still held."
    return None


def _losses_problem(inputs: dict, taken: list[dict]) -> str | None:
    for each, pairs in zip(taken, inputs["epochs"], strict=True):
        if each["type"] != "list":
            return f"The function returned something of type {each['type']}; expected a list."
        if strangers := [entry for entry in each["entries"] if entry != "float"]:
            return (
                f"The list holds a {strangers[0]}; expected Python floats: a tensor keeps memory, and perhaps a graph."
            )
        right, first = [], 0
        for group in _groups_of(inputs, pairs):
            if tokens := _tokens(group):
                right.append(math.fsum(each["values"][first : first + len(group)]) / tokens)
            first += len(group)
        small = 1e-9 if pairs[0][0].dtype == torch.float64 else 1e-5
        if len(right) != len(each["returned"]):
            return "The list does not have one entry for each step."
        if any(abs(found - mean) > small * abs(mean) for found, mean in zip(each["returned"], right, strict=True)):
            return "An entry is not the mean loss over the tokens of its group, in its digits."
    return None


def _values_problem(sums: list[list[tuple]], expected: list[list[dict]], taken: list[dict]) -> str | None:
    """As far as the steps are those that are due: behind another one a loss is another."""
    for each, losses, steps in zip(taken, sums, expected, strict=True):
        for found, (before, right) in zip(each["values"], losses, strict=True):
            if not _same_in_all(each["steps"][:before], steps[:before]):
                break
            small = 1e-8 if right.dtype == torch.float64 else 1e-4
            if not abs(found - right.item()) <= small * (1 + abs(right.item())):
                return "The losses are not those of the micro-batches."
    return None


def _host_problem(inputs: dict, taken: list[dict], seen: Observation) -> str | None:
    if not seen.kernels:
        return "No work of the device was seen."
    for each, after in zip(taken, [*taken[1:], None], strict=True):
        calls = each["calls"]
        starts = [call["us"] for call in calls[:: inputs["group"]][1:]]
        begins = [each["began_us"], *starts, after["began_us"] if after else math.inf]
        lasts = [call["last_us"] for number, call in enumerate(calls) if _is_last(inputs, number, calls)]
        for begin, end, last in zip(begins[:-1], begins[1:], lasts, strict=True):
            waits = [wait.start_us for wait in seen.waits if begin <= wait.start_us < end]
            if len(waits) != 1:
                return (
                    "The host does not wait once for each group: the sums of the losses and the tokens can be read together, and "
                    "each further look at a tensor of the device is a wait more."
                )
            if waits[0] < last:
                return (
                    "The host waited before the last backward pass of the group was handed to the device, which then had "
                    "nothing to do."
                )
    return None


exercise = Exercise(
    criteria=(
        Criterion("steps", 1, "the steps are right where each micro-batch has as many tokens and groups are whole"),
        Criterion("weights", 2, "each token of a group counts the same, however they are spread", ("steps",)),
        Criterion("groups", 1, "what is left at the end makes a step, a group without a token none", ("steps",)),
        Criterion(
            "gradients", 1, "gradients from before and of other groups do not count, and none is left", ("steps",)
        ),
        Criterion("syncs", 1, "gradients are exchanged in the last backward pass of each group alone", ("steps",)),
        Criterion("memory", 1, "one micro-batch's activations are held, and two micro-batches at most", ("steps",)),
        Criterion("losses", 1, "the mean losses come back as Python floats", ("steps",)),
        Criterion("host", 1, "the host waits once for each group, after its last backward pass", ("steps",)),
    ),
    cases=_cases,
    judge=_judge,
)
