"""E16.1 tensor_parallel_mlp: its judge.

Before each pass a rank gets a share of its own, which no other rank knows: what the whole MLP makes of x can only be had by what
crosses. What a rank handed in is in the broker's log.
"""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.collective_broker import CollectiveRecord
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem
from autograder.judge.ranks import by_call, is_of_all, stopped
from exercises.parallelism.tensor_parallel_mlp.cases import cases, is_sound
from exercises.parallelism.tensor_parallel_mlp.expected import LAYERS, Played, played, share_of

_NEAR = {torch.float32: 2e-5, torch.float64: 1e-11}
_DTYPES = {"float32": torch.float32, "float64": torch.float64}
Tensor = torch.Tensor


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    problem = stopped(evidence) or _record_problem(case, evidence["results"])
    expected = [] if problem else played(case)
    for criterion in case.criteria:
        if found := problem or _PROBLEMS[criterion](case, evidence, expected):
            yield Failure(criterion, found)


def _record_problem(case: Case, results: list[dict]) -> str | None:
    own = case.per_rank_inputs[0]
    for result in results:
        for name, of in (("passes", "passes"), ("shares", "specs"), ("kept", "specs"), ("answers", "refused")):
            if problem := count_problem(result[name], len(own[of])):
                return problem
    return None


# ---- values


def _outputs_problem(case: Case, evidence: dict, expected: list[Played]) -> str | None:
    for number, step in enumerate(expected):
        for result in evidence["results"]:
            outs = result["passes"][number]["outs"]
            if problem := count_problem(outs, len(step.outs)):
                return problem
            for out, right, bias in zip(outs, step.outs, step.biases, strict=True):
                if problem := tensor_problem(out, right):
                    return problem
                if not _is_near(out, right):
                    return _why_not(out, right, bias, case.ranks)
    return None


def _why_not(out: Tensor, right: Tensor, bias: Tensor | None, ranks: int) -> str:
    if ranks > 1 and bias is not None and _is_near(out, right + (ranks - 1) * bias):
        return "The bias of the second layer is in the output once for each rank: it is added once, behind the sum."
    if bias is not None and _is_near(out, right - bias):
        return "The bias of the second layer is not in the output."
    if ranks > 1 and (
        _is_near(out, right / ranks) or bias is not None and _is_near(out, (right - bias) / ranks + bias)
    ):
        return "The output is divided by the number of ranks: shares add up to the whole, they are no copies of it."
    return (
        "A rank's output is not that of the whole MLP with what the ranks' parameters hold at the time: GELU comes between the "
        "layers, on parts of the hidden features, and the ranks' contributions are added up."
    )


def _gradients_problem(case: Case, evidence: dict, expected: list[Played]) -> str | None:
    for number, step in enumerate(expected):
        for rank, result in enumerate(evidence["results"]):
            found = result["passes"][number]
            problem = _of_x_problem(found["of_x"], step, case.ranks)
            if problem := problem or _of_parameters_problem(case, found["grads"], step, rank):
                return problem
    return None


def _of_x_problem(found: list, step: Played, ranks: int) -> str | None:
    if problem := count_problem(found, len(step.of_x)):
        return problem
    for grad, right in zip(found, step.of_x, strict=True):
        if right is None:
            if grad is not None:
                return "x has a gradient that it does not require."
            continue
        if grad is None:
            return "x requires gradients and has none after the backward pass."
        if problem := tensor_problem(grad, right):
            return f"The gradient of x: {problem}"
        if not _is_near(grad, right):
            if ranks > 1 and _is_near(grad, right * ranks):
                return "The gradient of x is as many times too large as there are ranks: the output's gradient was added up, too."
            return (
                "The gradient of x is not the whole one in every rank: what comes through each share is to be added up."
            )
    return None


def _of_parameters_problem(case: Case, found: list, step: Played, rank: int) -> str | None:
    ranks = case.ranks
    for spec, grads, whole in zip(case.per_rank_inputs[0]["specs"], found, step.grads, strict=True):
        right = [
            part for name, part in zip(LAYERS, share_of(whole, rank, ranks), strict=True) if spec[name] is not None
        ]
        if problem := count_problem(grads, len(right)):
            return problem
        for grad, one in zip(grads, right, strict=True):
            if one is None or grad is None:
                if one is not None or grad is not None:
                    return "A parameter has a gradient where none is due, or none where one is."
                continue
            if problem := tensor_problem(grad, one):
                return f"A gradient: {problem}"
            if not _is_near(grad, one):
                if ranks > 1 and _is_near(grad, one * ranks):
                    return "Gradients are as many times too large as there are ranks: each rank has the output's gradient already."
                if ranks > 1 and _is_near(grad, one / ranks):
                    return "Gradients are divided by the number of ranks: shares are no replicas, there is nothing to average."
                return "A parameter's gradient is not this rank's part of the whole MLP's gradient."
    return None


def _is_near(value: Tensor, expected: Tensor) -> bool:
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return bool(((value.double() - expected.double()).abs() <= _NEAR[expected.dtype] * (scale + 1e-30)).all())


# ---- what crossed


def _segments(case: Case, evidence: dict) -> list[list[CollectiveRecord]] | None:
    """What crossed in the call, and in each pass forward, backward and behind it."""
    found = by_call(evidence["traffic"].collectives)
    return found if len(found) == 1 + 3 * len(case.per_rank_inputs[0]["passes"]) else None


def _forward_problem(case: Case, evidence: dict, expected: list[Played]) -> str | None:
    segments = _segments(case, evidence)
    if segments is None:
        return "Ranks were called to a barrier where none is due."
    if segments[0]:
        return "Something crosses before the module is called: every rank has the whole layers, and takes its share."
    for number, step in enumerate(expected):
        if problem := _traffic_problem(case, segments[1 + 3 * number], step.forward, "forward"):
            return problem
    return None


def _backward_problem(case: Case, evidence: dict, expected: list[Played]) -> str | None:
    segments = _segments(case, evidence)
    if segments is None:
        return "Ranks were called to a barrier where none is due."
    for number, step in enumerate(expected):
        if problem := _traffic_problem(case, segments[2 + 3 * number], step.backward, "backward"):
            return problem
        if segments[3 + 3 * number]:
            return "Something crosses after the backward pass."
    return None


def _traffic_problem(
    case: Case, collectives: list[CollectiveRecord], expected: list[list[Tensor]], way: str
) -> str | None:
    """``expected``: what each rank hands in to each all-reduce; they may come in any order."""
    if case.ranks == 1:
        return None
    operations = [collective.entry.operation for collective in collectives]
    if foreign := sorted(set(operations) - {"all_reduce"}):
        return f"In the {way} pass something else crosses than an all-reduce: {foreign[0]}."
    if len(operations) != len(expected):
        few = "Fewer" if len(operations) < len(expected) else "More"
        return f"{few} all-reduces cross in the {way} pass than one for each call{_WHERE[way]}."
    open_ = list(expected)
    for collective in collectives:
        if problem := _kind_problem(case, collective, expected[0][0].dtype):
            return problem
        given = [_decoded(one, collective) for one in collective.given]
        place = next((i for i, right in enumerate(open_) if all(map(_is_handed, given, right))), None)
        if place is None:
            return _NOT_HANDED[way]
        del open_[place]
    return None


def _is_handed(given: Tensor, right: Tensor) -> bool:
    return given.numel() == right.numel() and _is_near(given, right.flatten())


def _decoded(given: bytes, collective: CollectiveRecord) -> Tensor:
    return torch.frombuffer(bytearray(given), dtype=_DTYPES[collective.entry.dtype])


def _kind_problem(case: Case, collective: CollectiveRecord, dtype: torch.dtype) -> str | None:
    if not is_of_all(collective, case.ranks):
        return "An all-reduce does not cross between all ranks in the default process group."
    if collective.entry.reduces != "SUM":
        return "An all-reduce does not add up what it gets: sums are due."
    if _DTYPES.get(collective.entry.dtype) != dtype:
        return "What crosses has another dtype than x."
    return None


_WHERE = {"forward": "", "backward": " of which the input requires gradients"}
_NOT_HANDED = {
    "forward": (
        "What a rank hands in to the all-reduce of the forward pass is not what its own share contributes to the output: GELU of "
        "its part of the hidden features, by its columns of the second weight, without the bias."
    ),
    "backward": (
        "What a rank hands in to the all-reduce of the backward pass is not what comes to x through its own share, from the "
        "output's gradient as it is in every rank."
    ),
}


# ---- shares and errors


def _shares_problem(case: Case, evidence: dict, expected: list[Played]) -> str | None:
    for rank, result in enumerate(evidence["results"]):
        for spec, share, kept in zip(case.per_rank_inputs[0]["specs"], result["shares"], result["kept"], strict=True):
            whole = [spec[name] for name in LAYERS]
            right = [part for part in share_of(whole, rank, case.ranks) if part is not None]
            if count_problem(share, len(right)):
                return "The module has not as many parameters as its share has: two weights, and the biases that are there."
            for one, part in zip(share, right, strict=True):
                if problem := tensor_problem(one["value"], part):
                    return f"A parameter is not the share that is due: {problem}"
                if not torch.equal(one["value"], part):
                    return "A parameter does not hold the rank's part of the whole layers' values, in the order that is due."
                if one["held"] != part.nbytes:
                    return "A parameter keeps more memory than its share has: a slice keeps the whole of its storage."
                if one["trained"] is not True:
                    return "A parameter requires no gradients."
            if len({one["at"] for one in share}) < len(share):
                return "Two parameters lie in one piece of memory."
            before = [tensor for tensor in whole if tensor is not None]
            if len(kept) != len(before) or not all(map(torch.equal, kept, before)):
                return "The whole layers were changed."
    return None


def _errors_problem(case: Case, evidence: dict, expected: list[Played]) -> str | None:
    for result in evidence["results"]:
        for spec, answer in zip(case.per_rank_inputs[0]["refused"], result["answers"], strict=True):
            if is_sound(spec, case.ranks) and "error" in answer:
                return f"Layers that fit are refused. {raised_problem(answer['error'])}"
            if not is_sound(spec, case.ranks) and (problem := error_problem(answer, "ValueError")):
                return problem
    return None


_PROBLEMS = {
    "outputs": _outputs_problem,
    "gradients": _gradients_problem,
    "forward": _forward_problem,
    "backward": _backward_problem,
    "shares": _shares_problem,
    "errors": _errors_problem,
}


exercise = Exercise(
    criteria=(
        Criterion("outputs", 2, "every rank has the output of the whole MLP, with its bias once"),
        Criterion(
            "gradients", 2, "x has the whole gradient in every rank, and each parameter its share of it", ("outputs",)
        ),
        Criterion(
            "forward", 2, "one all-reduce crosses in each forward pass, of the shares' contributions", ("outputs",)
        ),
        Criterion("backward", 2, "one crosses in each backward pass where x requires gradients", ("gradients",)),
        Criterion("shares", 1, "a rank keeps its share of the layers and nothing of the rest", ("outputs",)),
        Criterion("errors", 1, "layers that do not fit are refused with ValueError", ("outputs",)),
    ),
    cases=cases,
    judge=_judge,
)
