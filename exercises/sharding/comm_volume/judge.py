"""E15.3 comm_volume: cases and judge. What is due is added up from a step's collectives, one after another.

One fault costs one criterion: all but `volume` is judged beside what the learner's own function says of a plainer step.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from autograder.core.exercise import Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, raised_problem, type_name
from autograder.judge.questions import Questions, answers, ask, refuse
from autograder.protocol.plain import value_of

_FLAT = ("ddp", "zero1", "zero2", "fsdp", "fsdp_keep")
_KINDS = ("all_gather", "reduce_scatter", "all_reduce")
_NEAR = 1e-9
_DEFAULTS = {
    "parameter_bytes": 4,
    "gradient_bytes": 4,
    "micro_batches": 1,
    "no_sync": False,
    "root": 0,
    "node_ranks": None,
}
_BESIDE = {"volume": 1, "accumulation": 2, "bytes": 2, "root": 2, "hybrid": 3}
"""A question and those that are asked beside it."""


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("volume", _plain(sampler))
    yield ask("accumulation", list(_beside(_accumulated(sampler), micro_batches=1, no_sync=False)))
    yield ask("bytes", list(_beside(_of_unlike_bytes(sampler), parameter_bytes=4, gradient_bytes=4)))
    yield ask("root", list(_beside(_rooted(sampler), root=0)))
    yield ask("hybrid", list(_hybrid(sampler)))
    allowed = [_question("hsdp", 1000, 12, node_ranks=node_ranks) for node_ranks in (1, 4, 12)]
    yield ask("errors", allowed + [_question(name, 1000, 4) for name in _FLAT])
    yield refuse("errors", sampler.permutation(list(_refused(sampler))))


def _question(strategy: str, parameters: int, ranks: int, **named: Any) -> dict:
    return {"strategy": strategy, "parameters": parameters, "ranks": ranks} | _DEFAULTS | named


def _arguments(question: dict) -> tuple:
    """Up to the last that has not its default."""
    asked = list(question.items())
    while asked[-1] in _DEFAULTS.items():
        asked.pop()
    return tuple(value for _, value in asked)


def _some(sampler: Sampler, strategy: str, **named: Any) -> dict:
    """Shares are whole here. ``hsdp`` has nodes of two."""
    nodes, ranks = {"node_ranks": 2} if strategy == "hsdp" else {}, 2 * sampler.integer(2, 5)
    return _question(strategy, ranks * sampler.integer(500, 10**5), ranks, **nodes, **named)


def _beside(questions: Iterator[dict], **plainer: Any) -> Iterator[dict]:
    for question in questions:
        yield from (question, question | plainer)


def _plain(sampler: Sampler) -> list[dict]:
    """One rank, two, an odd number, many; no weight, a number that no power of two divides, many."""
    found = []
    for strategy in sampler.shuffled(*_FLAT):
        ranks = sampler.shuffled(1, 2, 2 * sampler.integer(1, 5) + 1, sampler.choice([64, 256, 1024]))
        odd, many = 2 * sampler.integer(500, 5000) + 1, sampler.integer(10**9, 10**11)
        found += [_question(strategy, *pair) for pair in zip(sampler.shuffled(odd, many, 1024, 0), ranks, strict=True)]
    return sampler.permutation(found)


def _accumulated(sampler: Sampler) -> Iterator[dict]:
    for strategy in _FLAT:
        for no_sync in (False,) if strategy == "zero2" else (False, True):
            yield _some(sampler, strategy, micro_batches=sampler.integer(2, 9), no_sync=no_sync)


def _of_unlike_bytes(sampler: Sampler) -> Iterator[dict]:
    for strategy in (*_FLAT, "hsdp"):
        for parameter_bytes, gradient_bytes in sampler.shuffled((2, 4), (4, sampler.choice([1, 2]))):
            yield _some(sampler, strategy, parameter_bytes=parameter_bytes, gradient_bytes=gradient_bytes)


def _rooted(sampler: Sampler) -> Iterator[dict]:
    """A part is the root's, or everything; those whom it does not concern are told of it, too."""
    for strategy in (*_FLAT, "hsdp"):
        some = _some(sampler, strategy, micro_batches=sampler.integer(2, 4), no_sync=strategy == "fsdp")
        for root in (some["ranks"] * sampler.integer(1, 499), some["parameters"]):
            yield some | {"root": root}


def _hybrid(sampler: Sampler) -> Iterator[dict]:
    """As many nodes as ranks in each, more, and fewer, and one; FSDP within a node, and DDP of a share among nodes, beside."""
    for nodes, node_ranks in sampler.shuffled((1, 8), (4, 4), (sampler.integer(5, 9), 3), (2, 8), (16, 8)):
        for no_sync in (False, True):
            share, named = (
                nodes * sampler.integer(500, 10**4),
                {"no_sync": no_sync, "micro_batches": sampler.integer(1, 5)},
            )
            yield _question("hsdp", share * node_ranks, nodes * node_ranks, node_ranks=node_ranks, **named)
            yield _question("fsdp", share * node_ranks, node_ranks, **named)
            yield _question("ddp", share, nodes, **named)


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    some, low = sampler.choice(_FLAT), -sampler.integer(2, 9)
    for name in ("zero3", "DDP", "fsdp2"):
        yield _question(name, 1000, 4), f"the strategy {name!r} is none of the six"
    yield _question(some, -1, 4), "`parameters` is less than 0"
    for root in (-1, 1001):
        why = "less than 0" if root < 0 else "greater than `parameters`"
        yield _question("fsdp", 1000, 4, root=root), f"`root` is {why}"
    for few in (0, low):
        yield _question(some, 1000, few), "`ranks` is less than 1"
        for name in ("micro_batches", "parameter_bytes", "gradient_bytes"):
            yield _question(some, 1000, 4, **{name: few}), f"`{name}` is less than 1"
    for micro_batches in (1, 3):
        yield _question("zero2", 1000, 4, no_sync=True, micro_batches=micro_batches), "`no_sync` is asked of zero2"
    yield _question("hsdp", 1000, 12), "`node_ranks` of hsdp is None"
    for node_ranks in (0, -3, 5, 8, 24):
        why = "less than 1" if node_ranks < 1 else "no divisor of `ranks`"
        yield _question("hsdp", 1000, 12, node_ranks=node_ranks), f"`node_ranks` of hsdp is {why}"


# ---- what is due


def _collectives(asked: dict) -> Iterator[tuple[str, int, Fraction]]:
    """A step's, in order: kind, ranks of the ring, bytes of the whole tensor."""
    strategy, ranks, parameters = asked["strategy"], asked["ranks"], Fraction(asked["parameters"])
    weights, gradients = parameters * asked["parameter_bytes"], parameters * asked["gradient_bytes"]
    node = asked["node_ranks"] if strategy == "hsdp" else ranks
    for number in range(asked["micro_batches"]):
        brings_together = number == asked["micro_batches"] - 1 or not asked["no_sync"]
        if strategy in ("fsdp", "fsdp_keep", "hsdp"):
            yield "all_gather", node, weights
        if strategy in ("fsdp", "hsdp"):
            yield "all_gather", node, weights - asked["root"] * asked["parameter_bytes"]
        if brings_together and strategy == "ddp":
            yield "all_reduce", ranks, gradients
        if brings_together and strategy in ("zero2", "fsdp", "fsdp_keep", "hsdp"):
            yield "reduce_scatter", node, gradients
        if brings_together and strategy == "hsdp":
            yield "all_reduce", ranks // node, gradients / node
    if strategy == "zero1":
        yield "reduce_scatter", ranks, gradients
    if strategy in ("zero1", "zero2"):
        yield "all_gather", ranks, weights


def _expected(asked: dict) -> dict[str, Fraction]:
    found = dict.fromkeys(_KINDS, Fraction(0))
    for kind, ring, nbytes in _collectives(asked):
        found[kind] += (2 if kind == "all_reduce" else 1) * Fraction(ring - 1, ring) * nbytes
    total = sum(found.values())
    return found | {"total": total} | ({"between_nodes": found["all_reduce"]} if asked["strategy"] == "hsdp" else {})


# ---- what is wrong


def _judge(case: Questions, evidence: dict) -> Iterator[Failure]:
    (criterion,), told = case.criteria, evidence.get("answers")
    if case.raises or count_problem(told, len(case.questions)):
        yield from _asked.judge(case, evidence)
    elif problem := next(filter(None, map(_no_numbers, told)), None):
        yield Failure(criterion, problem)
    elif criterion != "errors" and (problem := next(_problems(criterion, case.questions, told), None)):
        yield Failure(criterion, problem)


def _no_numbers(answer: dict) -> str | None:
    if "error" in answer:
        return raised_problem(answer["error"])
    value = value_of(answer["returned"])
    if not isinstance(value, dict) or not value:
        return f"The function returned {type_name(value)}; expected a dictionary of numbers."
    if strange := [number for number in value.values() if type(number) not in (int, float)]:
        return f"An entry is {type_name(strange[0])}; expected an integer or a float."
    return None if all(map(math.isfinite, value.values())) else "An entry is no finite number."


def _problems(criterion: str, questions: list[dict], told: list[dict]) -> Iterator[str]:
    values = [value_of(answer["returned"]) for answer in told]
    size = _BESIDE[criterion]
    if len({str(value) for value in values[::size]}) == 1:
        yield "The same is answered whatever is asked."
    if size == 2 and not any(map(_is_told, questions[1::2], values[1::2])):
        yield "Of no plainer step anything is sent that is due, so that nothing can be told of others."
    for at in range(0, len(values), size):
        asked, value = questions[at : at + size], values[at : at + size]
        if criterion == "volume":
            problem = _wrong(criterion, asked[0], value[0])
        elif criterion == "hybrid":
            problem = _hybrid_problem(asked[0], *value)
        else:
            problem = _scaled_problem(criterion, *map(_expected, asked), *value)
        if problem:
            yield problem


def _is_told(asked: dict, value: dict) -> bool:
    return any(nbytes and value.get(kind) for kind, nbytes in _expected(asked).items() if kind in _KINDS)


def _wrong(criterion: str, asked: dict, value: Any) -> str | None:
    due = _expected(asked)
    if not isinstance(value, dict) or set(value) != set(due):
        return "The dictionary has not the entries that are due: the three kinds and the total, and between_nodes for hsdp alone."
    if not all(type(number) in (int, float) for number in value.values()):
        return "An entry is no number."
    wrong = next((key for key in due if not _near(value[key], due[key])), None)
    return wrong and _SENTENCES[wrong]


def _near(found: float, due: Fraction) -> bool:
    return math.isfinite(found) and abs(Fraction(found) - due) <= _NEAR * abs(due)


def _scaled_problem(criterion: str, due: dict, plain_due: dict, value: dict, plain: dict) -> str | None:
    """A kind is right, or as many times the learner's own of a plainer step as is due. What that lacks is not asked again."""
    for kind in (kind for kind in _KINDS if plain_due[kind] and plain.get(kind)):
        found, own = value.get(kind, 0), Fraction(plain[kind])
        if not _near(found, due[kind]) and not _near(found, own * due[kind] / plain_due[kind]):
            return f"Beside a plainer step of the same strategy, {_WORDS[kind]} is not as many times as much as is due. {_BEYOND[criterion]}"
    return None


def _hybrid_problem(asked: dict, value: dict, fsdp: dict, ddp: dict) -> str | None:
    due = _expected(asked)
    for kind, own in (("all_gather", fsdp), ("reduce_scatter", fsdp), ("all_reduce", ddp)):
        if not any(_near(value.get(kind, 0), other) for other in (due[kind], Fraction(own.get(kind, 0)))):
            return f"For hsdp {_WORDS[kind]} is not what it is {_LIKE[kind]}."
    if not _near(value.get("total", 0), sum(Fraction(value.get(kind, 0)) for kind in _KINDS)):
        return _SENTENCES["total"]
    if not _near(value.get("between_nodes", -1), Fraction(value.get("all_reduce", 0))):
        return _SENTENCES["between_nodes"]
    return None if value["total"] else "For hsdp nothing is sent."


_WORDS = {
    "all_gather": "what is sent to gather weights",
    "reduce_scatter": "what is sent to reduce-scatter gradients",
    "all_reduce": "what is sent to all-reduce gradients",
}
_WITHIN = "for fsdp on the ranks of one node"
_LIKE = {
    "all_gather": _WITHIN,
    "reduce_scatter": _WITHIN,
    "all_reduce": "for ddp on as many ranks as there are nodes, of a share of the parameters",
}
_BEYOND = {
    "accumulation": "FSDP gathers weights in every micro-batch, no_sync or not; ZeRO-1 and ZeRO-2 gather them once in a step. Gradients are "
    "reduced in every micro-batch, with no_sync in the last alone, and for ZeRO-1 once in a step.",
    "bytes": "Weights are gathered in `parameter_bytes`, gradients reduced in `gradient_bytes`.",
    "root": "Of fsdp and hsdp the backward pass does not gather the root's own weights, the forward pass does; elsewhere `root` is nothing.",
}
_SENTENCES = {
    "all_gather": "What is sent to gather weights is not right: FSDP gathers all in the forward pass and again in the backward pass, ZeRO once "
    "in a step, on a ring of n ranks (n - 1) / n of their bytes.",
    "reduce_scatter": "What is sent to reduce-scatter gradients is not right: (n - 1) / n of their bytes with ZeRO and FSDP; DDP all-reduces.",
    "all_reduce": "What is sent to all-reduce gradients is not right: DDP's are all gradients, twice (n - 1) / n of their bytes.",
    "total": "The total is not the sum of the three.",
    "between_nodes": "Between nodes goes the all-reduce of HSDP and nothing else: its gathers and scatters stay within a node.",
}

_asked = answers(
    criteria=(
        Criterion("volume", 2, "for one micro-batch every strategy's collectives and their bytes are right"),
        Criterion("accumulation", 2, "several micro-batches send as many times as much, with no_sync and without"),
        Criterion("bytes", 1, "weights and gradients have bytes of their own"),
        Criterion("root", 1, "the root's weights are not gathered a second time, where that makes a difference"),
        Criterion("hybrid", 2, "HSDP sends what FSDP does within a node, and a share of the gradients between nodes"),
        Criterion("errors", 1, "what makes no sense is refused with ValueError"),
    ),
    cases=_cases,
    arguments=_arguments,
    wrong=_wrong,
)
exercise = replace(_asked, judge=_judge)
