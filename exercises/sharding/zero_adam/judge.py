"""E15.1 zero_adam: its judge.

Every rank asks for its own gradients, which nobody else can know. What it handed in is in the broker's log. The
parameters in the ranks after a step, and what they hold, is what they say. Only `values` knows Adam: what crosses, and in
which order, is judged by the learner's own new values, and a missing gradient by its own step with zeros.
"""

from collections.abc import Iterator, Sequence

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.collective_broker import Traffic
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem
from autograder.judge.ranks import stopped
from exercises.sharding.zero_adam import shares
from exercises.sharding.zero_adam.cases import cases

Tensor = torch.Tensor
_DEFAULTS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}
_NEAR = {torch.float32: 3e-6, torch.float64: 1e-10}
_FREE_BYTES = 256


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := stopped(evidence) or _record_problem(case, evidence["results"]):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    for criterion in case.criteria:
        if problem := _PROBLEMS[criterion](case, evidence["results"], evidence["traffic"]):
            yield Failure(criterion, problem)
    if problem := _grads_problem(case, evidence["results"]):  # of every case, whatever else it is about
        yield Failure("unused", problem)


def _record_problem(case: Case, results: list[dict]) -> str | None:
    """What a rank says is one entry a step, with all parameters of that step's optimizer as they were."""
    own = case.per_rank_inputs[0]
    for result in results:
        if problem := count_problem(result["steps"], len(own["steps"])) or count_problem(
            result["kept"], len(own["steps"])
        ):
            return problem
        for step, after in zip(own["steps"], result["steps"], strict=True):
            likes = own["optimizers"][step["of"]]["values"]
            for found in (after["values"], after["lies"]):
                if problem := count_problem(found, len(likes)) or next(
                    filter(None, map(tensor_problem, found, likes)), None
                ):
                    return problem
    return count_problem(results[0]["answers"], len(own["refused"]))


def _flat(case: Case, which: int, tensors: Sequence[Tensor | None]) -> Tensor:
    """Of all trained parameters of an optimizer, as float64; what is None counts as zeros."""
    spec = case.per_rank_inputs[0]["optimizers"][which]
    pairs = zip(tensors, spec["values"], spec["frozen"], strict=True)
    trained = [torch.zeros_like(like) if one is None else one for one, like, frozen in pairs if not frozen]
    return torch.cat([one.detach().double().flatten() for one in trained])


def _of_step(case: Case, number: int) -> int:
    return case.per_rank_inputs[0]["steps"][number]["of"]


def _gradients(case: Case, number: int) -> list[Tensor]:
    return [_flat(case, _of_step(case, number), own["steps"][number]["grads"]) for own in case.per_rank_inputs]


def _after(case: Case, number: int, results: list[dict]) -> list[Tensor]:
    return [_flat(case, _of_step(case, number), result["steps"][number]["values"]) for result in results]


def _is_near(found: Tensor, due: Tensor, dtype: torch.dtype) -> bool:
    return bool(((found - due).abs() <= _NEAR[dtype] * (1 + due.abs())).all())


# ---- values


def _by_adam(case: Case) -> Iterator[Tensor]:
    """All values after each step of the case's optimizer, in float64."""
    (spec,) = case.per_rank_inputs[0]["optimizers"]
    numbers = _DEFAULTS | spec["options"]
    (beta1, beta2), p = numbers["betas"], _flat(case, 0, spec["values"])
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for t in range(1, len(case.per_rank_inputs[0]["steps"]) + 1):
        grads = _gradients(case, t - 1)
        g = sum(grads) / len(grads)
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        p = p - numbers["lr"] * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + numbers["eps"])
        yield p


def _in_place(result: dict) -> bool:
    """Whether the memory that the parameters had in the call holds what they hold after each step."""
    return all(all(map(torch.equal, after["values"], after["lies"])) for after in result["steps"])


def _values_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    dtype = case.per_rank_inputs[0]["optimizers"][0]["values"][0].dtype
    for number, due in enumerate(_by_adam(case)):
        for result, found in zip(results, _after(case, number, results), strict=True):
            if not _is_near(found, due, dtype):
                return _NOT_ADAM
            if not _in_place(result):
                return "The new values are in new tensors: the memory that the parameters had in the call does not hold them."
    return _rows_problem(case, traffic)


def _rows_problem(case: Case, traffic: Traffic) -> str | None:
    own = case.per_rank_inputs[0]
    values, scatters = own["optimizers"][0]["values"], shares.once_a_step(traffic, "reduce_scatter", len(own["steps"]))
    found = (one and shares.row_problem(one, _gradients(case, at), values) for at, one in enumerate(scatters))
    return next(filter(None, found), None)


_NOT_ADAM = (
    "After a step a rank's parameters are not what Adam makes of the mean of all ranks' gradients: of this step's, with moments "
    "that begin at 0 and belong to these elements."
)


# ---- what crossed


def _crossing_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    """In every step two collectives and nothing else. The order of elements is not judged here."""
    steps = len(case.per_rank_inputs[0]["steps"])
    if problem := shares.why_others([collective.entry.operation for collective in traffic.collectives], steps):
        return problem
    spec = case.per_rank_inputs[0]["optimizers"][0]
    dtype, places = spec["values"][0].dtype, [place for place, frozen in enumerate(spec["frozen"]) if frozen]
    frozen = torch.cat([spec["values"][at].double().flatten() for at in places])
    for number in range(steps):
        scatter, gather = traffic.collectives[2 * number : 2 * number + 2]
        if problem := shares.kind_problem((scatter, gather), case.ranks, dtype):
            return problem
        if problem := shares.handed_problem(scatter, gather, _gradients(case, number), frozen):
            return problem
        came = torch.cat(shares.given(gather))
        if any(len(came) != len(now) or not torch.isin(now, came).all() for now in _after(case, number, results)):
            return "What the all-gather brings are not the values that a rank's parameters have after the step."
    kept = (torch.equal(one["steps"][-1]["values"][at], spec["values"][at]) for one in results for at in places)
    return None if all(kept) else "A parameter that is not trained has changed: no share holds it."


def _uneven_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    """Of the reduce-scatters where there is one a step, and of the all-gathers likewise."""
    steps = len(case.per_rank_inputs[0]["steps"])
    pairs = zip(*(shares.once_a_step(traffic, kind, steps) for kind in ("reduce_scatter", "all_gather")), strict=True)
    for number, (scatter, gather) in enumerate(pairs):
        if scatter is None and gather is None:
            return "A step cuts no one sequence into shares: neither a reduce-scatter nor an all-gather crosses once a step."
        if problem := scatter and shares.cut_problem(scatter, _gradients(case, number)):
            return problem
        if problem := gather and shares.joined_problem(gather, _after(case, number, results)):
            return problem
    return None


# ---- what is held, what is missing, what is refused


def _state_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    """New tensors for parameters or for gradients are lost elsewhere, and no state."""
    (spec,) = case.per_rank_inputs[0]["optimizers"]
    nbytes = len(_flat(case, 0, spec["values"])) * spec["values"][0].dtype.itemsize
    moments = 2 * nbytes // case.ranks
    if min(number for result in results for number in result["kept"]) < moments:
        return "After a step a rank holds less in tensors than two moments of its own share take."
    others = (not all(map(_in_place, results))) + (_grads_problem(case, results) is not None)
    room = moments + _FREE_BYTES + others * nbytes
    if max(number for result in results for number in result["kept"]) > room:
        return (
            "Between steps a rank holds more than two moments of its own share: gradients, weights, moments in a wider dtype or "
            "another rank's. A slice keeps the whole of its storage."
        )
    return None


def _unused_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    """Three optimizers alike: where the first one's ranks have nothing, the second one's have zeros; the third's gradients are others."""
    spec, half = case.per_rank_inputs[0]["optimizers"][0], len(case.per_rank_inputs[0]["steps"]) // 2
    if any(map(torch.equal, _after(case, 0, results), _after(case, -1, results))):
        return "Whatever a rank's gradients are, a step gives its parameters the same values."
    for number in range(half):
        for now, due in zip(_after(case, number, results), _after(case, number + half, results), strict=True):
            if not _is_near(now, due, spec["values"][0].dtype):
                return "Where gradients are missing, the parameters are not what they are with zeros for gradients."
    return None


def _grads_problem(case: Case, results: list[dict]) -> str | None:
    for own, result in zip(case.per_rank_inputs, results, strict=True):
        for step, after in zip(own["steps"], result["steps"], strict=True):
            for was, grad, same in zip(step["grads"], after["grads"], after["same"], strict=True):
                if was is None and grad is not None:
                    return "A gradient that a rank did not have is there after the step: .grad stays None."
                if was is not None and (same is not True or tensor_problem(grad, was) or not torch.equal(grad, was)):
                    return "After the step .grad is not the tensor that it was, with its values: it is each rank's own."
    return None


def _errors_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    for spec, answer in zip(case.per_rank_inputs[0]["refused"], results[0]["answers"], strict=True):
        because = _why_refused(spec)
        if because and (problem := error_problem(answer, "ValueError", because)):
            return problem
        if not because and "error" in answer:
            return f"Numbers and dtypes that Adam can work with are refused. {raised_problem(answer['error'])}"
    return None


def _why_refused(spec: dict) -> str | None:
    numbers = _DEFAULTS | spec["options"]
    for name in ("lr", "eps"):
        if numbers[name] < 0:
            return f"`{name}` is less than 0"
    for name, beta in zip(("beta1", "beta2"), numbers["betas"], strict=True):
        if not 0 <= beta < 1:
            return f"{name} is {'less than 0' if beta < 0 else 'not less than 1'}"
    trained = {value.dtype for value, frozen in zip(spec["values"], spec["frozen"], strict=True) if not frozen}
    return "trained `parameters` have two dtypes" if len(trained) > 1 else None


_PROBLEMS = {
    "values": _values_problem,
    "crossing": _crossing_problem,
    "uneven": _uneven_problem,
    "state": _state_problem,
    "unused": _unused_problem,
    "errors": _errors_problem,
}


exercise = Exercise(
    criteria=(
        Criterion(
            "values", 2, "all ranks have the values that Adam makes of the mean gradients, in place, of any strides"
        ),
        Criterion("crossing", 2, "a step is one reduce-scatter of gradients and one all-gather of new values, no more"),
        Criterion("uneven", 1, "shares are equal parts of the elements, whatever tensors and ranks there are"),
        Criterion("state", 2, "a rank holds two moments of its own share between steps, and no more"),
        Criterion("unused", 1, "missing gradients count as zeros, and .grad stays"),
        Criterion("errors", 1, "numbers and dtypes that Adam cannot work with are refused with ValueError"),
    ),
    cases=cases,
    judge=_judge,
)
