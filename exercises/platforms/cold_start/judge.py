"""E20.1 cold_start: cases and judge. What is due is the library's timeline, whose loads are in closed form."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.platforms.cold_start import cases as drawn
from gpulab.platforms import Timeline, timeline

_ENTRIES = {"spans", "critical", "saves", "bottleneck"}


def _cases(sampler: Sampler) -> Iterator[Questions]:
    strata = {"order": drawn.orders, "pipeline": drawn.pipelines, "critical": drawn.chains, "bottleneck": drawn.limits}
    for criteria, plans in strata.items():
        yield ask(criteria, sampler.permutation(list(plans(sampler))))
    yield ask("errors", sampler.permutation(list(drawn.broken(sampler))), raises="ValueError")


def _wrong(criteria: str, plan: dict, value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) != _ENTRIES:
        return (
            f"A dictionary of spans, critical, saves and bottleneck is due, and nothing else; {type_name(value)} came."
        )
    return _CHECKS[criteria](value, plan, timeline(drawn.as_stages(plan), plan["tiers"]))


def _near(told: Any, right: float, expected: Timeline) -> bool:
    return type(told) in (int, float, Fraction) and math.isfinite(told) and abs(told - right) <= 1e-9 * expected.ready


def _spans_problem(value: dict, plan: dict, expected: Timeline) -> str | None:
    spans = value["spans"]
    if not isinstance(spans, dict) or set(spans) != set(expected.spans):
        return "The spans are not those of the plan's stages, one for each."
    if not all(isinstance(span, list) and len(span) == 2 for span in spans.values()):
        return "A span is a pair: when the stage begins, and when it is done."
    for name, (begin, done) in expected.spans.items():
        if not _near(spans[name][0], begin, expected):
            return "A stage begins when all that it waits for is done, and not when anything else is."
        if not _near(spans[name][1], done, expected):
            return _LOADS if "path" in plan["stages"][name] else "A stage is done its seconds after it began."
    return None


def _critical_problem(value: dict, plan: dict, expected: Timeline) -> str | None:
    chain, stages = value["critical"], plan["stages"]
    if not isinstance(chain, list) or not chain or not all(isinstance(name, str) and name in stages for name in chain):
        return "The critical list is no list of the plan's stages."
    if abs(expected.spans[chain[-1]][1] - expected.ready) > 1e-9 * expected.ready:
        return "The last critical stage is done when the instance is ready, and this one is done before."
    for before, after in zip(chain, chain[1:]):
        if before not in stages[after]["after"]:
            return "A critical stage does not wait for the one before it in the list."
        if abs(expected.spans[before][1] - expected.spans[after][0]) > 1e-9 * expected.ready:
            return "Between two critical stages there is time: it was another one that was waited for."
    return (
        None
        if expected.spans[chain[0]][0] == 0
        else "The first critical stage does not begin at 0: something was waited for."
    )


def _bottleneck_problem(value: dict, plan: dict, expected: Timeline) -> str | None:
    saves = value["saves"]
    if not isinstance(saves, dict) or set(saves) != set(expected.saves):
        return "The entries of saves are the tiers that loads cross, and the stages with seconds."
    for name, seconds in expected.saves.items():
        if not _near(saves[name], seconds, expected):
            return (
                "What an improvement saves is not how long the thing takes: the rest is still there, and what went on meanwhile, "
                "or in other chunks, may be what is waited for then."
            )
    named = value["bottleneck"]
    if (
        not isinstance(named, str)
        or named not in saves
        or expected.saves[named] < max(expected.saves.values()) - 1e-9 * expected.ready
    ):
        return "The bottleneck is not what saves most."
    return None


_LOADS = (
    "A load is done when its needed bytes have crossed the last tier, in chunks that go through one tier after the other: while "
    "one chunk is on the second, the next is on the first."
)
_CHECKS = {
    "order": _spans_problem,
    "pipeline": _spans_problem,
    "critical": _critical_problem,
    "bottleneck": _bottleneck_problem,
}


exercise = answers(
    criteria=(
        Criterion("order", 2, "stages begin when what they wait for is done, and overlap otherwise"),
        Criterion(
            "pipeline", 3, "loads go through their tiers in chunks, to the device, and what is needed is what counts"
        ),
        Criterion("critical", 2, "the critical list is a chain without gaps from 0 until ready"),
        Criterion("bottleneck", 2, "what each improvement would save is found, and named where it is most"),
        Criterion("errors", 1, "plans that are none are refused with ValueError", ("order",)),
    ),
    cases=_cases,
    arguments=lambda plan: (plan,),
    wrong=_wrong,
    kept="The function changed the plan.",
    libraries=("numpy",),
)
