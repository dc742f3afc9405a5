"""E22.2 design_review: cases and judge. What a plan takes is in ``designs``, what is drawn in ``designs_drawn``."""

from collections.abc import Callable, Iterator
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, raised_problem, type_name
from exercises.capstone.design_review import cases as drawn
from exercises.capstone.design_review import designs as expected

_NEAR, _CHEAP, _WASTE = 0.01, 1.01, 1.05
_TRAINING = ("legal", "memory", "network", "time", "cost", "interval")
_TRAINING_KEYS = {"tensor", "pipeline", "data", "stage", "micro_batch", "save_every_s", "days", "dollars"}
_SERVING_KEYS = {"tensor", "replicas", "batch", "between_tokens_s", "dollars_per_hour"}
_NOT_WHOLE = {"save_every_s", "days", "dollars", "between_tokens_s", "dollars_per_hour"}


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield Case(_TRAINING, {"specs": list(drawn.trainings(sampler))})
    yield Case(("serving",), {"specs": list(drawn.servings(sampler))})
    yield Case(("refusals",), {"specs": sampler.permutation([*drawn.untrainable(sampler), *drawn.unservable(sampler)])})


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    specs, answers = case.inputs["specs"], evidence["answers"]
    if problem := count_problem(answers, len(specs)):
        yield from (Failure(criteria, problem) for criteria in case.criteria)
        return
    lost: dict[str, str] = {}
    for spec, answer in zip(specs, answers, strict=True):
        for criteria, problem in _problems(case.criteria, spec, answer):
            lost.setdefault(criteria, problem)
    yield from (Failure(criteria, problem) for criteria, problem in lost.items())


def _problems(criteria: tuple[str, ...], spec: dict, answer: dict) -> Iterator[tuple[str, str]]:
    plans, binds = expected.reviewed(spec)
    if problem := raised_problem(answer["error"]) if "error" in answer else _form_problem(spec, answer["returned"]):
        yield from ((each, problem) for each in criteria)
        return
    plan = answer["returned"]
    if binds or "refused" in plan:
        if problem := _refusal_problem(plan, binds):
            yield from ((each, problem) for each in criteria)
    elif spec["mode"] == "serve":
        yield from (("serving", problem) for problem in [_service_problem(spec, plan, plans)] if problem)
    else:
        yield from _training_problems(spec, plan, plans)


def _form_problem(spec: dict, plan: Any) -> str | None:
    if not isinstance(plan, dict):
        return f"The function returned {type_name(plan)}; expected a dictionary."
    keys = _SERVING_KEYS if spec["mode"] == "serve" else _TRAINING_KEYS
    if set(plan) == {"refused"}:
        return None
    if set(plan) != keys:
        return "The dictionary is neither a plan with the entries that are due for this mode nor a refusal."
    if not all(type(plan[key]) in (int, float) if key in _NOT_WHOLE else type(plan[key]) is int for key in keys):
        return "Degrees, stage and batches are integers, times and dollars are numbers."
    if not all(0 < plan[key] < float("inf") for key in keys & _NOT_WHOLE):
        return "Times and dollars are finite and greater than 0."
    return None


def _refusal_problem(plan: dict, binds: str | None) -> str | None:
    if not binds:
        return "A specification is refused that a plan meets."
    if "refused" not in plan:
        return "A plan is given where none meets the specification: a wish is no plan."
    if plan["refused"] != binds:
        return "The refusal names another constraint than the first that no plan meets along with those before it."
    return None


def _near(told: float, right: float) -> bool:
    return abs(told - right) <= _NEAR * right


def _training_problems(spec: dict, plan: dict, plans: list) -> Iterator[tuple[str, str]]:
    layout = expected.Layout(*(plan[key] for key in ("tensor", "pipeline", "data", "stage", "micro_batch")))
    if not expected.is_legal(spec, layout):
        yield from ((criteria, _illegal(spec, layout)) for criteria in ("legal", "memory"))
        return
    every_s = plan["save_every_s"]
    checks: dict[str, Callable[[], str | None]] = {
        "memory": lambda: None if expected.meets(spec, layout, "memory") else _MEMORY,
        "network": lambda: None if expected.meets(spec, layout, "network") else _NETWORK,
        "time": lambda: _time_problem(spec, plan, layout, every_s),
        "cost": lambda: _cost_problem(spec, plan, layout, every_s, plans),
        "interval": lambda: _interval_problem(spec, layout, every_s),
    }
    yield from ((criteria, problem) for criteria, check in checks.items() if (problem := check()))


def _illegal(spec: dict, layout: expected.Layout) -> str:
    if layout.tensor > spec["node_gpus"]:
        return "A tensor-parallel group reaches across nodes: it sums activations twice in every layer, over NVLink or not at all."
    return "The degrees do not divide what they divide, need more GPUs than there are, or shard what a pipeline keeps."


def _time_problem(spec: dict, plan: dict, layout: expected.Layout, every_s: float) -> str | None:
    if not _near(plan["days"], expected.days(spec, layout, every_s)):
        return _DAYS
    return None if expected.meets(spec, layout, "time") else "The plan takes longer than is allowed."


def _cost_problem(spec: dict, plan: dict, layout: expected.Layout, every_s: float, plans: list) -> str | None:
    """Of days and of an interval that are wrong other criteria judge."""
    days, dollars = expected.days(spec, layout, every_s), expected.dollars(spec, layout, every_s)
    if not _near(plan["dollars"], plan["days"] * dollars / days):
        return "The dollars are not those of all GPUs for all hours of the days that the plan says."
    least = min(_least_dollars(spec, each) for each in plans)
    own = _least_dollars(spec, layout)
    return "There is a plan that meets everything for less." if own > min(_CHEAP * least, spec["max_dollars"]) else None


def _least_dollars(spec: dict, layout: expected.Layout) -> float:
    return expected.dollars(spec, layout, expected.best_interval_s(spec, layout))


def _interval_problem(spec: dict, layout: expected.Layout, every_s: float) -> str | None:
    best = expected.wasted(spec, layout, expected.best_interval_s(spec, layout))
    return None if expected.wasted(spec, layout, every_s) <= _WASTE * best else _INTERVAL


def _service_problem(spec: dict, plan: dict, plans: list) -> str | None:
    service = expected.Service(*(plan[key] for key in ("tensor", "replicas", "batch")))
    if not expected.fits_nodes(spec, service.tensor) or min(service.replicas, service.batch) < 1:
        return "A replica is a part of one node with whole heads of keys on each GPU."
    if service.batch * service.replicas < spec["users"]:
        return "The replicas' batches together have no room for all users."
    if not expected.serves_within(spec, service, "memory"):
        return "A replica does not fit: on each GPU lie its share of the weights and of the keys and values of the whole batch, at full context."
    if not _near(plan["between_tokens_s"], expected.between_tokens_s(spec, service)):
        return "The time from token to token is not that of the whole batch at full context."
    if not all(expected.serves_within(spec, service, limit) for limit in ("latency", "gpus", "cost")):
        return "The plan is slower than is allowed, needs more GPUs than there are, or costs too much."
    if not _near(plan["dollars_per_hour"], expected.dollars_per_hour(spec, service)):
        return "The dollars are not those of all GPUs of all replicas."
    least = min(expected.dollars_per_hour(spec, each) for each in plans)
    return (
        "There is a plan that meets everything for less."
        if expected.dollars_per_hour(spec, service) > _CHEAP * least
        else None
    )


_MEMORY = (
    "The plan does not fit: on each GPU lie weights, gradients, the optimizer's float32 copy and two moments, as far as they are not sharded, "
    "and the activations of all micro-batches that are under way."
)
_NETWORK = "Data parallelism sends more in a step than the network carries while the step is computed: stage 3 gathers weights for every micro-batch."
_DAYS = (
    "The days are not right: 6 FLOPs for each parameter and token, at the utilisation given of the dense peak, with the pipeline's idle time and "
    "what saving and failures cost."
)
_INTERVAL = "Checkpoints are too seldom or too often: a save costs time, and so does what a failure of any of the GPUs destroys."

exercise = Exercise(
    criteria=(
        Criterion("legal", 2, "a plan can be laid out on the machines there are", ("memory",)),
        Criterion("memory", 3, "it fits on every GPU"),
        Criterion("network", 1, "the network carries it", ("legal",)),
        Criterion("time", 3, "its days are right, and few enough", ("legal",)),
        Criterion("cost", 1, "its dollars are right, and hardly any plan is cheaper", ("legal",)),
        Criterion("interval", 1, "checkpoints are as far apart as failures ask", ("legal",)),
        Criterion("serving", 2, "a plan that serves fits, is fast enough and hardly any is cheaper"),
        Criterion("refusals", 2, "what no plan meets is refused, and the constraint that binds is named", ("legal",)),
    ),
    cases=_cases,
    judge=_judge,
)
