"""E16.4 mesh_plan: cases and judge. What is due is found by trying all plans."""

from collections.abc import Iterator
from math import prod
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.parallelism.mesh_plan import plans
from gpulab.parallel import mesh_groups


def _cases(sampler: Sampler) -> Iterator[Questions]:
    strata = {
        "time": plans.that_is_fast,
        "divides": plans.that_divides,
        "memory": plans.that_fits,
        "groups": plans.of_every_shape,
    }
    for criterion, jobs in strata.items():
        yield ask(criterion, list(jobs(sampler)))
    yield ask("errors", list(plans.impossible(sampler)), raises="ValueError")


def _wrong(criterion: str, job: tuple[dict, dict], value: Any) -> str | None:
    if not isinstance(value, list) or len(value) != 2:
        return (
            f"The function returned {type_name(value)}; expected a pair of a plan and of groups."
            if not isinstance(value, list)
            else _NO_PAIR
        )
    plan, groups = value
    if not isinstance(plan, list) or len(plan) != 3 or any(type(size) is not int for size in plan):
        return "The plan is no tuple of three integers (dp, pp, tp)."
    return _CHECKS[criterion](tuple(plan), groups, *job)


def _time_problem(plan: plans.Plan, groups: Any, model: dict, cluster: dict) -> str | None:
    if plan == plans.best(model, cluster):
        return None
    return _divides_problem(plan, groups, model, cluster) or (
        "The plan could be, and another one is faster: the bubble counts, what tp sends in every layer, and the gradients."
    )


def _divides_problem(plan: plans.Plan, groups: Any, model: dict, cluster: dict) -> str | None:
    dp, pp, tp = plan
    if min(plan) < 1 or prod(plan) != cluster["nodes"] * cluster["gpus"]:
        return "The plan does not use all GPUs: the product of its sizes is the number of nodes times that of a node's GPUs."
    if cluster["gpus"] % tp:
        return "Tensor parallel ranks are not all in one node: tp is to divide the GPUs of a node."
    if not plans.divides(model, cluster, dp, pp, tp):
        return "The plan does not divide the model: tp the heads, pp the layers, dp the batch."
    return None


def _memory_problem(plan: plans.Plan, groups: Any, model: dict, cluster: dict) -> str | None:
    if min(plan) >= 1 and plans.held(model, cluster, *plan) <= cluster["memory"]:
        return None
    return (
        "The plan does not fit into memory: on the first stage pp microbatches are in flight, or all where they are fewer, each "
        "with a layer's activations for every layer of the stage."
    )


def _groups_problem(plan: plans.Plan, groups: Any, model: dict, cluster: dict) -> str | None:
    """Of the plan that was returned, whether it is the best or not."""
    sizes = dict(zip(("dp", "pp", "tp"), plan, strict=True))
    if not isinstance(groups, dict) or set(groups) != set(sizes):
        return f"The groups are {type_name(groups)}; expected a dictionary with the keys dp, pp and tp."
    if min(plan) < 1 or prod(plan) != cluster["nodes"] * cluster["gpus"]:
        return _divides_problem(plan, groups, model, cluster)
    expected = mesh_groups(sizes)
    for name in sizes:
        if groups[name] == expected[name]:
            continue
        if _sorted(groups[name]) == expected[name]:
            return (
                "The groups are right, and not in the order that is due: ranks ascending, groups by their first ranks."
            )
        if groups[name] == mesh_groups(dict(reversed(sizes.items())))[name]:
            return "Ranks are counted the other way round: tp is the innermost dimension, dp the outermost."
        return "The groups of a dimension are not the ranks that differ in it alone, of all GPUs, with tp innermost and dp outermost."
    return None


_CHECKS = {"time": _time_problem, "divides": _divides_problem, "memory": _memory_problem, "groups": _groups_problem}


def _sorted(groups: Any) -> Any:
    try:
        return sorted(sorted(group) for group in groups)
    except TypeError:
        return groups


_NO_PAIR = "A pair is due: the plan, and the groups."


exercise = answers(
    criteria=(
        Criterion("time", 3, "of all plans that may be the fastest is taken, bubble, sums and gradients counted"),
        Criterion("divides", 2, "tp stays in a node, and the plan divides heads, layers and batch"),
        Criterion("memory", 2, "what is held at once fits into memory, and nothing that fits is left out"),
        Criterion("groups", 2, "the groups of ranks are those of a DeviceMesh", ("divides",)),
        Criterion("errors", 1, "where no plan may be ValueError is raised", ("time",)),
    ),
    cases=_cases,
    arguments=lambda job: job,
    wrong=_wrong,
    kept="The function changed the dictionaries.",
    libraries=("numpy", "torch"),
)
