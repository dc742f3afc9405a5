"""E19.4 place_phases: cases and judge. What is due is in ``phases``, what is drawn in ``cases``."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from exercises.engines.place_phases import cases as drawn
from exercises.engines.place_phases.phases import Due, Model, expected, placed, refused

_NEAR = Fraction(1, 10**9)
_TIMES = ("ttft_us", "tbt_us", "gap_us", "latency_us")
_HELD_BY = {"shared": _TIMES, "split": (*_TIMES, "exposed_us", "prefill", "decode")}
_READ = {
    "shared": ("shared",),
    "instances": ("split",),
    "transfer": ("bytes", "split"),
    "split": ("split",),
    "placement": ("placement", "shared", "split"),
    "break_even": ("break_even_gbps", "shared", "split"),
    "errors": (),
}
"""What each criterion looks at."""
Plans = dict[str, dict[str, Fraction | None] | None]


def _cases(sampler: Sampler) -> Iterator[Case]:
    for criterion, draw in (
        ("shared", drawn.shared),
        ("instances", drawn.instances),
        ("transfer", drawn.transfers),
        ("split", drawn.splits),
        ("placement", drawn.placements),
        ("break_even", drawn.evens),
    ):
        again = {"placement": "emptied", "break_even": "beside"}.get(criterion, "")
        yield Case((criterion,), {"questions": sampler.permutation(list(draw(sampler))), "again": again})
    errors = sampler.permutation([*drawn.refusals(sampler), *drawn.allowed(sampler)])
    yield Case(("errors",), {"questions": errors, "again": ""})


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criterion,), questions = case.criteria, case.inputs["questions"]
    rounds, beside = evidence["rounds"], evidence["beside"]
    due = 3 if case.inputs["again"] == "emptied" else 1
    problems = count_problem(rounds, due), *(count_problem(answers, len(questions)) for answers in [*rounds, beside])
    if problem := next(filter(None, problems), None):
        yield Failure(criterion, problem)
        return
    asked = [pair for answers in rounds[:2] for pair in zip(questions, answers, beside, strict=True)]
    if problem := next(filter(None, (_problem(criterion, *one) for one in asked)), None):
        yield Failure(criterion, problem)
    elif due == 3 and any(answer.get("returned") != {} for answer in rounds[2]):
        yield Failure(
            criterion, "A dictionary that was returned before is returned again; expected a new one each time."
        )


def _problem(criterion: str, question: dict, answer: dict, beside: list[dict]) -> str | None:
    if reason := criterion == "errors" and refused(question):
        problem = error_problem(answer, "ValueError")
        return problem and f"Where {reason}: {problem}"
    if "error" in answer:
        return raised_problem(answer["error"])
    value = answer.get("returned")
    if problem := _form_problem(criterion, value):
        return problem
    if criterion == "errors":
        return None
    model = Model(question)
    return _WRONG[criterion](model, value, expected(model), *([beside] if criterion == "break_even" else []))


def _form_problem(criterion: str, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary."
    for name in _READ[criterion]:
        if name not in value:
            return f"The dictionary has no entry `{name}`."
        if name in _HELD_BY and value[name] is not None:
            if not isinstance(value[name], dict):
                return f"`{name}` is {type_name(value[name])}; expected a dictionary or None."
            if missing := [key for key in _HELD_BY[name] if key not in value[name]]:
                return f"`{name}` has no entry `{missing[0]}`."
    return None


# ---- numbers


def _number(told: Any) -> Fraction | None:
    """A number as it crossed: a finite float, or the text of a whole number or fraction."""
    if type(told) is float:
        return Fraction(told) if math.isfinite(told) else None
    text = told.get("number") if isinstance(told, dict) else None
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9a-f]{1,20000}/[0-9a-f]{1,20000}", text):
        return None
    above, below = (int(part, 16) for part in text.split("/"))
    return Fraction(above, below) if below else None


def _is(told: Fraction | None, right: Fraction, near: Fraction = _NEAR) -> bool:
    return told is not None and abs(told - right) <= near * abs(right)


def _numbers(plan: dict | None) -> dict[str, Fraction | None] | None:
    return plan and {key: _number(told) for key, told in plan.items()}


def _plans(value: dict) -> Plans | None:
    """Both of the learner's, or None where a time of one is no number."""
    plans = {name: _numbers(value[name]) for name in _HELD_BY}
    complete = all(plan is None or None not in [plan[key] for key in _HELD_BY[name]] for name, plan in plans.items())
    return plans if complete else None


def _are_likely(own: Plans, model: Model) -> bool:
    """Whether plans that may be wrong, which other criteria judge, are somebody's: latencies without transfer within 30 times."""
    pairs = []
    if own["shared"] and (shared := model.shared()):
        pairs.append((own["shared"]["latency_us"], shared["latency_us"]))
    if own["split"] and (sizes := model.sizes()):
        pairs.append((own["split"]["latency_us"] - own["split"]["exposed_us"], model.unhidden_us(sizes[0])))
    return pairs != [] and all(due < 30 * told < 900 * due for told, due in pairs)


def _are_right(own: Plans, right: Plans) -> bool:
    return all(
        own[name] is right[name] is None
        or own[name]
        and right[name]
        and all(_is(own[name][key], right[name][key]) for key in _TIMES)
        for name in _HELD_BY
    )


# ---- what is wrong


def _shared(model: Model, value: dict, right: Due) -> str | None:
    own, due = _numbers(value["shared"]), right.plans["shared"]
    if own is None or due is None:
        return None if own is due else _SHARED["given" if own else "None"]
    wrong = (key for key in _TIMES[:3] if not _is(own[key], due[key]))
    return next((_SHARED[key] for key in wrong), None) or _latency(own, model)


def _latency(own: dict[str, Fraction], model: Model) -> str | None:
    return None if _is(own["latency_us"], own["ttft_us"] + model.after_first * own["tbt_us"]) else _LATENCY


def _instances(model: Model, value: dict, right: Due) -> str | None:
    own, due = _numbers(value["split"]), right.plans["split"]
    if own is None or due is None:
        return None if own is due else _SPLIT["given" if own else "None"]
    return None if own["prefill"] == due["prefill"] and own["decode"] == due["decode"] else _SIZES


def _transfer(model: Model, value: dict, right: Due) -> str | None:
    if _number(value["bytes"]) != right.bytes:
        return _BYTES
    own, due = _numbers(value["split"]), right.plans["split"]
    if own is None or due is None:
        return None if own is due else _LINK["given" if own else "None"]
    return None if _is(own["exposed_us"], due["exposed_us"]) else _EXPOSED


def _split(model: Model, value: dict, right: Due) -> str | None:
    """By the learner's own exposed time and instances: of those other criteria judge."""
    own, due = _numbers(value["split"]), right.plans["split"]
    if own is None:
        return _NO_SPLIT
    exposed, prefill, ttft = own["exposed_us"], own["prefill"], own["ttft_us"]
    if prefill is None or prefill.denominator > 1 or prefill < 1:
        return f"A split's `prefill` is {type_name(value['split']['prefill'])} that counts no instances."
    if exposed is None or not _is(ttft, model.first_us(int(prefill), model.computing) + exposed):
        return _FIRST
    return _latency(own, model) if all(_is(own[key], due[key]) for key in ("tbt_us", "gap_us")) else _STEP


def _placement(model: Model, value: dict, right: Due) -> str | None:
    told, own = value["placement"], _plans(value)
    if told == right.placement and (told is None or isinstance(told, str)):
        return None
    if told is not None and not (isinstance(told, str) and told in _HELD_BY):
        return f"`placement` is {type_name(told)} that names none; expected `shared`, `split` or None."
    if own is None or placed(own, model.has) != told:
        return _PLACEMENT
    if _are_right(own, right.plans):
        return _ROUNDED
    return None if _are_likely(own, model) else _UNLIKELY


def _break_even(model: Model, value: dict, right: Due, beside: list[dict]) -> str | None:
    """At another bandwidth than is due, or at none, still right for whoever's own split is as good from there on alone."""
    told, due = value["break_even_gbps"], right.break_even_gbps
    number = _number(told)
    if told is None and due is None or due is not None and _is(number, due):
        return None
    if told is not None and (number is None or number <= 0):
        return (
            f"`break_even_gbps` is {type_name(told)} that is no bandwidth; expected a number greater than 0, or None."
        )
    wrong = _NO_BANDWIDTH if told is None else _BANDWIDTH if due is not None else _SOME_BANDWIDTH
    hair = Fraction(1, 10**6)
    links = [Fraction(10**60)] if told is None else [number * (1 + hair), number * (1 - hair)]
    answers = [answer.get("returned") for answer in beside]
    if count_problem(answers, len(links)) or any(_form_problem("break_even", answer) for answer in answers):
        return wrong
    own = [_plans(answer) for answer in answers]
    if None in own or not _are_likely(own[0], model):
        return wrong
    if all(
        _are_right(plans, {"shared": model.shared(), "split": model.split(link)})
        for plans, link in zip(own, links, strict=True)
    ):
        return wrong
    return None if _as_good(own[0], told is not None) and _as_good(own[-1], False) else wrong


def _as_good(own: Plans, due: bool) -> bool:
    """Whether the split is as good as is due, but for rounding."""
    if own["split"] is None or own["shared"] is None:
        return (own["split"] is not None) is due
    gap = own["split"]["latency_us"] - own["shared"]["latency_us"]
    return (gap if due else -gap) <= _NEAR * own["shared"]["latency_us"]


_WRONG = {
    "shared": _shared,
    "instances": _instances,
    "transfer": _transfer,
    "split": _split,
    "placement": _placement,
    "break_even": _break_even,
}
_LATENCY = "`latency_us` is not your own `ttft_us` and, for each output token after the first, your own `tbt_us`."
_SHARED = {
    "given": (
        "`shared` is not None where the load, with a step for each chunk, is 1 or more, or where an instance has more requests "
        "to decode than slots."
    ),
    "None": (
        "`shared` is None where the load, with a step for each chunk, is less than 1 and the slots suffice, exactly or with "
        "room. Neither the link nor the limits nor the split play a part."
    ),
    "ttft_us": (
        "The `ttft_us` of shared instances is not W + E[S]. S holds the computation of the tokens that are not cached and a step for "
        "each chunk, also for the last one, which may be shorter; W has the mean of S², at the rate of one instance."
    ),
    "tbt_us": "The `tbt_us` of shared instances is not `step_us` / (1 - λ E[C] / n): C without the steps, n all instances.",
    "gap_us": (
        "The `gap_us` of shared instances is not a step and the largest chunk of the mix: no more than `chunk` tokens, and no "
        "more than are computed of any prompt."
    ),
}
_SPLIT = {
    "given": (
        "`split` is not None where no instance is left to compute prompts, or where the load of those that do is 1 or more. "
        "First comes d, by the slots."
    ),
    "None": (
        "`split` is None where an instance is left to compute prompts, the load of those that do is less than 1, and each "
        "instance's own link carries its share."
    ),
}
_SIZES = (
    "`prefill` and `decode` of a split are not right. `decode` is the least number, from 1 on, with at most `slots` requests "
    "on each instance, by the mean of `output` - 1 and at `step_us` a token; all other instances compute prompts."
)
_LINK = {
    "given": "`split` is not None where a link is given more than it carries: λ E[T] / p is more than 1, T without the latency.",
    "None": "`split` is None where the links carry all that they are given: λ E[T] / p is at most 1, T without the latency.",
}
_BYTES = (
    "`bytes` is not the exact mean, by weight, of the bytes of all tokens of a prompt, cached or not. It is the same where a "
    "split does not hold."
)
_EXPOSED = (
    "`exposed_us` is not right. Write down, for one kind, when each layer is computed and when it has been sent, in bits a "
    "second; subtract C from the last of these times, average over the mix, and add `link_latency_us` once."
)
_NO_SPLIT = "`split` is None where any one instance could compute all prompts, send them, and any other decode."
_FIRST = (
    "A split's `ttft_us` is not W + E[C] with your own `exposed_us` added. W is that of your own `prefill` instances, which compute "
    "prompts whole."
)
_STEP = "A split's `tbt_us` and `gap_us` are not `step_us`: whoever decodes there is never held up by a prompt."
_PLACEMENT = (
    "`placement` is not the plan with the smaller `latency_us` of those that are not None and within both limits, `ttft_us` "
    "and `gap_us`; `shared` at a tie, and None where neither is."
)
_ROUNDED = (
    "`placement` follows from your times as they were returned, and not from exact ones: a limit is just reached or just missed, "
    "or the latencies are equal or nearly so. Compare fractions."
)
_UNLIKELY = "Not judged until one of your plans is there and has a `latency_us` that is less than thirty times off."
_NO_BANDWIDTH = (
    "`break_even_gbps` is None where a fast link makes a split that is as good as shared, or the only one. Today's link and the "
    "limits play no part."
)
_SOME_BANDWIDTH = (
    "`break_even_gbps` is a number where there is none: without any transfer but `link_latency_us` the split is not faster "
    "than shared, or its instances do not suffice."
)
_BANDWIDTH = (
    "`break_even_gbps` is not right. At that bandwidth the links carry the load, and the split, with what is exposed there, takes as "
    "long as shared; or it takes less, or there is no shared, and the links just carry the load."
)


exercise = Exercise(
    criteria=(
        Criterion("shared", 2, "where shared instances hold, and their times, are right"),
        Criterion("instances", 1, "the instances of a split, and whether they suffice, are right to the last bit"),
        Criterion("transfer", 2, "the bytes of a transfer, whether links carry them, and what is exposed, are right"),
        Criterion("split", 1, "a split's times are right, with what is exposed added"),
        Criterion("placement", 1, "the placement that follows from both plans is chosen, every time"),
        Criterion("break_even", 1, "the break-even bandwidth follows from both plans, and is None where there is none"),
        Criterion("errors", 1, "what makes no sense is refused with ValueError, and nothing else is"),
    ),
    cases=_cases,
    judge=_judge,
)
