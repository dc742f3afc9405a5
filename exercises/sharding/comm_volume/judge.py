"""E15.3 comm_volume: cases and judge. What is due is added up from a step's collectives, one after another.

One fault costs one criterion: but for `volume`, answers are judged beside the learner's own for a plainer step.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from autograder.core.exercise import Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.contrast import how_many_right
from autograder.judge.expect import count_problem, entries_problem, is_finite_number, raised_problem
from autograder.judge.questions import Questions, answers, ask, refuse
from autograder.protocol.plain import value_of

_FLAT = ("ddp", "zero1", "zero2", "fsdp", "fsdp_keep")
_KINDS = ("all_gather", "reduce_scatter", "all_reduce")
_OF_BYTES = {"parameter_bytes": 4, "gradient_bytes": 4}
_OF_BATCHES = {"micro_batches": 1, "no_sync": False}
_DEFAULTS = {**_OF_BYTES, **_OF_BATCHES, "root": 0, "node_ranks": None}
_PLAINER = {"accumulation": _OF_BATCHES, "bytes": _OF_BYTES, "root": {"root": 0}}


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("volume", _plain(sampler))
    for criterion, drawn in (("accumulation", _accumulated), ("bytes", _of_unlike_bytes), ("root", _rooted)):
        yield ask(criterion, [each for asked in drawn(sampler) for each in (asked, asked | _PLAINER[criterion])])
    yield ask("hybrid", list(_hybrid(sampler)))
    allowed = [_question("hsdp", 1000, 12, node_ranks=node_ranks) for node_ranks in (1, 4)]
    yield ask("errors", allowed + [_question(name, 1000, 4, node_ranks=sampler.choice((0, 3))) for name in _FLAT])
    yield refuse("errors", sampler.permutation(list(_refused(sampler))))


def _question(strategy: str, parameters: int, ranks: int, node_ranks: int | None = None, **named: Any) -> dict:
    numbers = {"strategy": strategy, "parameters": parameters, "ranks": ranks}
    return numbers | _DEFAULTS | named | {"node_ranks": node_ranks}


def _arguments(asked: dict) -> tuple:
    """Up to the last that has not its default."""
    last = max(at for at, item in enumerate(asked.items()) if item not in _DEFAULTS.items())
    return tuple(asked.values())[: last + 1]


def _plain(sampler: Sampler) -> list[dict]:
    """One rank, two, an odd number, many; no weight, a number that no power of two divides, many; nodes of no concern."""
    found = []
    for strategy in sampler.shuffled(*_FLAT):
        ranks = sampler.shuffled(1, 2, 2 * sampler.integer(1, 5) + 1, sampler.choice([64, 256, 1024]))
        weights = (2 * sampler.integer(500, 5000) + 1, 1024, sampler.integer(10**9, 10**11), 0)
        found += [_question(strategy, *each) for each in zip(weights, ranks, (1, 1, None, None), strict=True)]
    return sampler.permutation(found)


def _some(sampler: Sampler, strategy: str, **named: Any) -> dict:
    """Shares are whole here. ``hsdp`` has nodes of two."""
    ranks = 2 * sampler.integer(2, 5)
    return _question(strategy, ranks * sampler.integer(500, 10**5), ranks, 2 if strategy == "hsdp" else None, **named)


def _accumulated(sampler: Sampler) -> Iterator[dict]:
    """Of two micro-batches the last is as many as all but the last."""
    for strategy in _FLAT:
        for no_sync in (False,) if strategy == "zero2" else (False, True):
            yield _some(sampler, strategy, micro_batches=sampler.integer(3, 9), no_sync=no_sync)


def _of_unlike_bytes(sampler: Sampler) -> Iterator[dict]:
    for strategy in (*_FLAT, "hsdp"):
        parameter_bytes, gradient_bytes = sampler.choice([(1, 2), (2, 1), (2, 8), (8, 2)])
        yield _some(sampler, strategy, parameter_bytes=parameter_bytes, gradient_bytes=gradient_bytes)


def _rooted(sampler: Sampler) -> Iterator[dict]:
    """A part is the root's, or everything; those whom it does not concern are told of it, too. No element has four bytes."""
    for strategy in (*_FLAT, "fsdp", "hsdp", "hsdp"):
        some = _some(sampler, strategy, micro_batches=sampler.integer(2, 4), parameter_bytes=2, gradient_bytes=8)
        yield some | {"root": some["ranks"] * sampler.integer(1, 499), "no_sync": strategy == "fsdp"}
    yield from (some | {"root": some["parameters"]} for some in (_some(sampler, "fsdp"), _some(sampler, "hsdp")))


def _hybrid(sampler: Sampler) -> Iterator[dict]:
    """As many nodes as ranks in each, more, fewer, and one; FSDP within a node, and DDP of a share among nodes, beside."""
    no_sync = sampler.choice((False, True))
    for nodes, node_ranks in ((1, 8), (4, 4), (sampler.integer(5, 9), 3), (2, 8), (16, 8)):
        share, named = nodes * sampler.integer(500, 10**4), {"micro_batches": sampler.integer(2, 5), "no_sync": no_sync}
        yield _question("hsdp", share * node_ranks, nodes * node_ranks, node_ranks, **named)
        yield (within := _question("fsdp", share * node_ranks, node_ranks, **named))
        yield _question("ddp", share, nodes, **named) if nodes > 1 else within
        no_sync = not no_sync


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    some, low = sampler.choice(_FLAT), -sampler.integer(2, 9)
    for name in ("zero3", "DDP", "fsdp2"):
        yield _question(name, 1000, 4), f"the strategy {name!r} is none of the six"
    yield _question(some, -1, 4), "`parameters` is less than 0"
    for strategy in ("fsdp", "ddp"):
        yield _question(strategy, 1000, 4, root=-1), "`root` is less than 0"
        yield _question(strategy, 1000, 4, root=1001), "`root` is greater than `parameters`"
    for few in (0, low):
        yield _question(some, 1000, few), "`ranks` is less than 1"
        for name in ("micro_batches", "parameter_bytes", "gradient_bytes"):
            yield _question(some, 1000, 4, **{name: few}), f"`{name}` is less than 1"
    for micro_batches in (1, 3):
        yield _question("zero2", 1000, 4, no_sync=True, micro_batches=micro_batches), "`no_sync` is asked of zero2"
    yield _question("hsdp", 1000, 12), "`node_ranks` of hsdp is None"
    for node_ranks in (0, -3, 5, 8, 24):
        why = "less than 1" if node_ranks < 1 else "no divisor of `ranks`"
        yield _question("hsdp", 1000, 12, node_ranks), f"`node_ranks` of hsdp is {why}"


def _collectives(asked: dict) -> Iterator[tuple[str, int, Fraction]]:
    """A step's, in order: kind, ranks of the ring, bytes of the whole tensor."""
    strategy, ranks, parameters = asked["strategy"], asked["ranks"], Fraction(asked["parameters"])
    weights, gradients = parameters * asked["parameter_bytes"], parameters * asked["gradient_bytes"]
    node = asked["node_ranks"] if strategy == "hsdp" else ranks
    for number in range(asked["micro_batches"]):
        reduces = number == asked["micro_batches"] - 1 or not asked["no_sync"]
        if strategy in ("fsdp", "fsdp_keep", "hsdp"):
            yield "all_gather", node, weights
        if strategy in ("fsdp", "hsdp"):
            yield "all_gather", node, weights - asked["root"] * asked["parameter_bytes"]
        if reduces and strategy == "ddp":
            yield "all_reduce", ranks, gradients
        if reduces and strategy in ("zero2", "fsdp", "fsdp_keep", "hsdp"):
            yield "reduce_scatter", node, gradients
        if reduces and strategy == "hsdp":
            yield "all_reduce", ranks // node, gradients / node
    if strategy == "zero1":
        yield "reduce_scatter", ranks, gradients
    if strategy in ("zero1", "zero2"):
        yield "all_gather", ranks, weights


def _expected(asked: dict) -> dict[str, Fraction]:
    found = dict.fromkeys(_KINDS, Fraction(0))
    for kind, ring, nbytes in _collectives(asked):
        found[kind] += (2 if kind == "all_reduce" else 1) * Fraction(ring - 1, ring) * nbytes
    between = {"between_nodes": found["all_reduce"]} if asked["strategy"] == "hsdp" else {}
    return found | {"total": sum(found.values())} | between


def _wrong(criterion: str, asked: dict, value: Any) -> str | None:
    due = _expected(asked)
    if problem := entries_problem(value, due):
        return problem
    if not all(map(is_finite_number, value.values())):
        return "An entry is no finite number."
    wrong = next((key for key in due if not _near(value[key], due[key])), None)
    return wrong and _SENTENCES[wrong]


def _near(found: float, *due: Fraction) -> bool:
    return any(abs(Fraction(found) - each) <= abs(each) / 10**9 for each in due)


def _judge(case: Questions, evidence: dict) -> Iterator[Failure]:
    (criterion,), told, asked = case.criteria, evidence.get("answers"), case.questions
    if case.raises or criterion == "volume" or count_problem(told, len(asked)):
        yield from _asked.judge(case, evidence)
        return
    size = {"hybrid": 3, "errors": 1}.get(criterion, 2)
    groups = range(0, len(asked), size)
    problems = [_problem(criterion, asked[at : at + size], told[at : at + size]) for at in groups]
    if lost := [problem for problem in problems if problem not in (None, _UNTOLD)]:
        further = how_many_right([not problem for problem in problems], [_traits(asked[at]) for at in groups])
        yield Failure(criterion, f"{lost[0].rstrip('.')}. {further}".rstrip())
    elif 4 * problems.count(_UNTOLD) > len(problems):
        yield Failure(criterion, _UNTOLD)
    elif len({str([value_of(answer["returned"]).get(kind) for kind in _KINDS]) for answer in told[::size]}) == 1:
        yield Failure(criterion, "The same is answered whatever is asked.")


def _problem(criterion: str, asked: list[dict], told: list[dict]) -> str | None:
    if error := next((answer["error"] for answer in told if "error" in answer), None):
        return raised_problem(error)
    values = [value_of(answer["returned"]) for answer in told]
    if odd := [value for value in values if not isinstance(value, dict)]:
        return _wrong(criterion, asked[0], odd[0])
    if not all(is_finite_number(value.get(kind, 0)) for value in values for kind in _KINDS):
        return "An entry is no finite number."
    if criterion == "errors":
        return None
    missing = dict.fromkeys((*_KINDS, "total"), 0) | {"between_nodes": -1}
    values = [{key: Fraction(n if is_finite_number(n) else -1) for key, n in (missing | v).items()} for v in values]
    due = map(_expected, asked)
    return _hybrid_problem(next(due), *values) if criterion == "hybrid" else _scaled_problem(criterion, *due, *values)


def _scaled_problem(criterion: str, due: dict, plain_due: dict, value: dict, plain: dict) -> str | None:
    """A kind is as many times the plainer step's as is due, whatever that is. Of what that does not send nothing is told."""
    told = [kind for kind in _KINDS if plain_due[kind] and plain[kind]]
    scaled = all(_near(value[kind], due[kind], plain[kind] * due[kind] / plain_due[kind]) for kind in told)
    if not scaled or any(value[kind] for kind in _KINDS if not plain_due[kind] and not plain[kind]):
        return _BEYOND[criterion]
    return None if any(due[kind] != plain_due[kind] or due == plain_due for kind in told) else _UNTOLD


def _hybrid_problem(due: dict, value: dict, fsdp: dict, ddp: dict) -> str | None:
    own = {"all_gather": fsdp["all_gather"], "reduce_scatter": fsdp["reduce_scatter"], "all_reduce": ddp["all_reduce"]}
    if wrong := next((kind for kind in _KINDS if not _near(value[kind], due[kind], own[kind])), None):
        return _HYBRID[wrong]
    if sum(1 for kind in _KINDS if due[kind] and not value[kind]) > 1:
        return _UNTOLD
    if not _near(value["total"], sum(value[kind] for kind in _KINDS), fsdp["total"] + ddp["total"]):
        return _SENTENCES["total"]
    return None if _near(value["between_nodes"], value["all_reduce"]) else _SENTENCES["between_nodes"]


_UNTOLD = "Of too many steps nothing is sent that is due, so that nothing can be told of others."
_BEYOND = {
    "accumulation": "Several micro-batches do not send as many times what one sends as is due. FSDP gathers weights in each, no_sync or not, "
    "ZeRO-1 and ZeRO-2 once in a step. Gradients are reduced in each, with no_sync in the last alone, and for ZeRO-1 once in a step.",
    "bytes": "With other bytes an element is not sent as many times what is sent with four as is due. Weights are gathered in "
    "`parameter_bytes`, gradients reduced in `gradient_bytes`.",
    "root": "With a root of its own a model does not send as many times what it sends without as is due. Of fsdp and hsdp the backward pass "
    "does not gather the root's weights, the forward pass does; elsewhere `root` makes no difference.",
}
_HYBRID = {
    "all_gather": "For hsdp what is sent to gather weights is not what it is for fsdp on the ranks of one node.",
    "reduce_scatter": "For hsdp what is sent to reduce-scatter gradients is not what it is for fsdp on the ranks of one node.",
    "all_reduce": "For hsdp what is sent to all-reduce gradients is not what ddp sends on as many ranks as there are nodes, of a share.",
}
_SENTENCES = {
    "all_gather": "What is sent to gather weights is not right: FSDP gathers all in the forward pass and again in the backward pass, ZeRO once "
    "in a step, on a ring of n ranks (n - 1) / n of their bytes.",
    "reduce_scatter": "What is sent to reduce-scatter gradients is not right: (n - 1) / n of their bytes with ZeRO and FSDP; DDP all-reduces.",
    "all_reduce": "What is sent to all-reduce gradients is not right: DDP's are all gradients, twice (n - 1) / n of their bytes.",
    "total": "The total is not the sum of the three.",
    "between_nodes": "`between_nodes` is not what the all-reduce of hsdp sends, and that alone: gathers and scatters stay within a node.",
}


def _traits(asked: dict) -> dict[str, str]:
    root, hybrid = asked["root"], asked["strategy"] == "hsdp"
    return {
        "the strategy": f"`{asked['strategy']}`",
        "`parameters`": "greater than 0" if asked["parameters"] else "0",
        "`no_sync`": f"{asked['no_sync']}",
        "`root`": "0" if not root else "less than `parameters`" if root < asked["parameters"] else "`parameters`",
        "the number of ranks": "1" if asked["ranks"] == 1 else "greater than 1",
    } | ({"the number of nodes": "1" if asked["node_ranks"] == asked["ranks"] else "greater than 1"} if hybrid else {})


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
    traits=_traits,
)
exercise = replace(_asked, judge=_judge)
