"""E19.4 place_phases: cases and judge. What is due is in ``phases``, what is drawn in ``phases_drawn``."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from exercises.engines.place_phases import cases as drawn
from exercises.engines.place_phases.phases import Due, expected, refused

_NEAR = Fraction(1, 10**9)
_ENTRIES = {"placement", "bytes", "break_even_gbps", "shared", "split"}
_TIMES = ("ttft_us", "tbt_us", "gap_us", "latency_us")
_HELD_BY = {"shared": {*_TIMES}, "split": {*_TIMES, "exposed_us", "prefill", "decode"}}


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield _ask("shared", sampler.permutation(list(drawn.shared(sampler))))
    yield _ask("instances", sampler.permutation(list(drawn.instances(sampler))))
    yield _ask("transfer", sampler.permutation(list(drawn.transfers(sampler))))
    yield _ask("split", sampler.permutation(list(drawn.splits(sampler))))
    yield _ask("placement", sampler.permutation(list(drawn.placements(sampler))), twice=True)
    yield _ask("break_even", sampler.permutation(list(drawn.evens(sampler))))
    yield _ask("errors", sampler.permutation([*drawn.refusals(sampler), *drawn.allowed(sampler)]))


def _ask(criteria: str, questions: list[dict], twice: bool = False) -> Case:
    return Case((criteria,), {"questions": questions, "twice": twice})


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,), answers = case.criteria, evidence["answers"]
    questions = case.inputs["questions"] * (2 if case.inputs["twice"] else 1)
    if problem := count_problem(answers, len(questions)):
        yield Failure(criteria, problem)
        return
    found = _error if criteria == "errors" else _problem
    problems = (found(criteria, question, answer) for question, answer in zip(questions, answers, strict=True))
    if problem := next(filter(None, problems), None):
        yield Failure(criteria, problem)
    elif not all(answer.get("kept") is True for answer in answers):
        yield Failure(criteria, "The function changed what it was given: the caller still needs its workload.")


def _error(criteria: str, question: dict, answer: dict) -> str | None:
    """What is right where nothing is refused, the other cases ask."""
    if refused(question):
        return error_problem(answer, "ValueError")
    return f"What makes sense is refused. {raised_problem(answer['error'])}" if "error" in answer else None


def _problem(criteria: str, question: dict, answer: dict) -> str | None:
    if "error" in answer:
        return raised_problem(answer["error"])
    value = answer.get("returned")
    if problem := _form_problem(value):
        return problem
    return _WRONG[criteria](question, value, expected(question))


def _form_problem(value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary."
    if set(value) != _ENTRIES:
        return "The entries that are due are `placement`, `bytes`, `break_even_gbps`, `shared` and `split`, in a new dictionary."
    for name, keys in _HELD_BY.items():
        if value[name] is not None and (not isinstance(value[name], dict) or set(value[name]) != keys):
            return f"`{name}` is neither None nor a dictionary with the entries that are due."
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


def _is(told: Any, right: Fraction, near: Fraction = _NEAR) -> bool:
    number = _number(told)
    return number is not None and abs(number - right) <= near * abs(right)


# ---- what is wrong


def _held(value: dict, name: str, plan: dict | None) -> str | None:
    """Why a placement is None, or is not, and is not due to be."""
    if (value[name] is None) == (plan is None):
        return None
    return f"{_HELD[name]} {'It is None where it holds.' if plan else 'It is given where it does not hold.'}"


def _shared(question: dict, value: dict, right: Due) -> str | None:
    if problem := _held(value, "shared", right.shared):
        return problem
    wrong = (key for key in _TIMES if right.shared and not _is(value["shared"][key], right.shared[key]))
    return next((_SHARED[key] for key in wrong), None)


def _instances(question: dict, value: dict, right: Due) -> str | None:
    if problem := _held(value, "shared", right.shared) or _held(value, "split", right.split):
        return problem
    exact = right.split is None or all(
        _is(value["split"][key], right.split[key], Fraction(0)) for key in ("prefill", "decode")
    )
    return None if exact else _SIZES


def _transfer(question: dict, value: dict, right: Due) -> str | None:
    if not _is(value["bytes"], right.bytes, Fraction(0)):
        return _BYTES
    if problem := _held(value, "split", right.split):
        return problem
    return None if right.split is None or _is(value["split"]["exposed_us"], right.split["exposed_us"]) else _EXPOSED


def _split(question: dict, value: dict, right: Due) -> str | None:
    """Whatever is said to be exposed: of that another criterion judges."""
    if problem := _held(value, "split", right.split):
        return problem
    if right.split is None:
        return None
    exposed, ttft = (_number(value["split"][key]) for key in ("exposed_us", "ttft_us"))
    if exposed is None or ttft is None:
        return _FIRST
    if not _is(value["split"]["ttft_us"], right.split["ttft_us"] - right.split["exposed_us"] + exposed):
        return _FIRST
    if not all(_is(value["split"][key], right.split[key]) for key in ("tbt_us", "gap_us")):
        return "Who only decodes is never held up by a prompt: in a split a token comes with every step."
    last = ttft + right.after_first * right.split["tbt_us"]
    return None if _is(value["split"]["latency_us"], last) else _LATENCY


def _placement(question: dict, value: dict, right: Due) -> str | None:
    told = value["placement"]
    if told is None or isinstance(told, str) and told in _HELD_BY:
        return None if told == right.placement else _PLACEMENT
    return f"`placement` is {type_name(told)} that names none; expected `shared`, `split` or None."


def _break_even(question: dict, value: dict, right: Due) -> str | None:
    told = value["break_even_gbps"]
    if right.break_even_gbps is None or told is None:
        return None if right.break_even_gbps is told else _NO_BANDWIDTH
    return None if _is(told, right.break_even_gbps) else _BANDWIDTH


_WRONG = {
    "shared": _shared,
    "instances": _instances,
    "transfer": _transfer,
    "split": _split,
    "placement": _placement,
    "break_even": _break_even,
}
_LATENCY = "The latency is the time to the first token and, for each token after it, the mean time between two."
_HELD = {
    "shared": (
        "Shared instances hold when prompts, with the steps that their chunks join, load them by less than 1 "
        "and requests that decode have slots."
    ),
    "split": (
        "A split holds when there is an instance left to compute prompts, when prompts load those by less than 1, and "
        "when every link can carry what it is sent: rates, not one request alone."
    ),
}
_SHARED = {
    "ttft_us": (
        "A shared instance's time to the first token is not right: a prompt waits for those before it, by the mean of "
        "squares and not the square of the mean, and then each of its chunks, the last short one too, takes a step and "
        "its own tokens' time. No KV is sent."
    ),
    "tbt_us": (
        "Between two tokens a shared instance computes prompts for the share of time that their tokens take, cached "
        "ones aside, and decodes in the rest."
    ),
    "gap_us": (
        "The longest gap is one step with the largest chunk that the mix really has: a chunk is no longer than what "
        "is computed of a prompt."
    ),
    "latency_us": _LATENCY,
}
_SIZES = (
    "The instances are not shared out as is due: as few decode as have slots for all requests that decode at once, by "
    "the rate, the tokens after the first and the step; exactly, rounded up, one at least. All others compute prompts."
)
_BYTES = (
    "The bytes of a request are those of all tokens of its prompt, cached or not, averaged over the mix, and exact."
)
_EXPOSED = (
    "What is exposed of the transfer is not right. Bits are not bytes. Layers are sent while later ones are computed, "
    "but the last has to wait until it is computed itself; and this is worked out for each kind, then averaged. The "
    "latency comes once."
)
_FIRST = (
    "In a split the first token waits for the prompts before it on an instance that computes prompts alone, for its own"
    " prompt, computed whole, and for what is exposed of the transfer."
)
_PLACEMENT = (
    "The placement is due that holds, keeps both limits, which may be reached, and has the smaller latency; shared "
    "where both have the same; None where neither can be had. Floats cannot tell what is equal."
)
_NO_BANDWIDTH = (
    "Whether any bandwidth makes a split as good is told wrongly: none does where its instances do not hold, or where "
    "the latency of the link takes all that is saved. The link that is there now, and the limits, play no part."
)
_BANDWIDTH = (
    "The break-even bandwidth is not right: there a split takes as long as shared instances, with the transfers hidden "
    "as they are at that bandwidth; and the links have to carry the rate. Where shared does not hold, that alone "
    "decides."
)


exercise = Exercise(
    criteria=(
        Criterion("shared", 2, "where shared instances hold, and their times, are right"),
        Criterion("instances", 1, "instances are split as is due, and what does not hold is None, to the last bit"),
        Criterion("transfer", 2, "the bytes of a transfer, and what is exposed of it, are right"),
        Criterion("split", 1, "a split's times are right, with what is exposed added"),
        Criterion("placement", 1, "the placement with the smaller latency within the limits is chosen, every time"),
        Criterion("break_even", 1, "the break-even bandwidth is right, and none where there is none"),
        Criterion("errors", 1, "what makes no sense is refused with ValueError, and nothing else is", ("split",)),
    ),
    cases=_cases,
    judge=_judge,
)
