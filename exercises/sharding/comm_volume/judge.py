"""E15.3 comm_volume: cases and judge. What is due is added up from a step's collectives, one after another."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from autograder.judge.questions import ask, judge_questions

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
Collective = tuple[str, int, Fraction]
"""Kind, ranks of the ring, bytes of the whole tensor."""


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield ask("volume", _plain(sampler))
    yield ask("accumulation", _accumulated(sampler))
    yield ask("bytes", _of_unlike_bytes(sampler))
    yield ask("root", _rooted(sampler))
    yield ask("hybrid", _hybrid(sampler))
    yield ask("errors", _refused(sampler))


def _question(strategy: str, parameters: int, ranks: int, **named: Any) -> dict:
    return {"asked": [strategy, parameters, ranks], "named": named}


def _plain(sampler: Sampler) -> list[dict]:
    """One rank, two, an odd number, many; no weight, one, a number that no power of two divides, many."""
    found = []
    for strategy in sampler.shuffled(*_FLAT):
        ranks = sampler.shuffled(1, 2, 2 * sampler.integer(1, 5) + 1, sampler.choice([64, 256, 1024]))
        parameters = sampler.shuffled(
            1, 2 * sampler.integer(500, 5000) + 1, sampler.integer(10**9, 10**11), sampler.integer(100, 999) * 1024
        )
        found += [_question(strategy, *pair) for pair in zip(parameters, ranks, strict=True)]
        found.append(_question(strategy, 0, sampler.integer(2, 9)))
    return sampler.permutation(found)


def _accumulated(sampler: Sampler) -> list[dict]:
    """Of one micro-batch and of several, each with and without no_sync, in as far as it can be had."""
    found = []
    for strategy in _FLAT:
        for no_sync in (False,) if strategy == "zero2" else (False, True):
            for micro_batches in (1, 2, sampler.integer(3, 9)):
                found.append(_some(sampler, strategy, micro_batches=micro_batches, no_sync=no_sync))
    return sampler.permutation(found)


def _some(sampler: Sampler, strategy: str, **named: Any) -> dict:
    return _question(strategy, sampler.integer(1000, 10**6), sampler.integer(2, 9), **named)


def _of_unlike_bytes(sampler: Sampler) -> list[dict]:
    found = []
    for strategy in (*_FLAT, "hsdp"):
        for parameter_bytes, gradient_bytes in sampler.shuffled((2, 4), (4, 2), (1, sampler.choice([2, 8]))):
            named = {"parameter_bytes": parameter_bytes, "gradient_bytes": gradient_bytes}
            question = _some(sampler, strategy, **named, **({"node_ranks": 2} if strategy == "hsdp" else {}))
            question["asked"][2] *= 2  # so that nodes of two are filled
            found.append(question)
        found.append(_some(sampler, strategy, gradient_bytes=2, **({"node_ranks": 1} if strategy == "hsdp" else {})))
        found.append(_some(sampler, strategy, parameter_bytes=2, **({"node_ranks": 1} if strategy == "hsdp" else {})))
    return sampler.permutation(found)


def _rooted(sampler: Sampler) -> list[dict]:
    """The root has nothing, a part or everything; those whom it does not concern are told of it, and of nodes, too."""
    found = []
    for strategy in (*_FLAT, "hsdp"):
        parameters = sampler.integer(1000, 10**6)
        roots = (0, 1, sampler.integer(2, parameters - 1), parameters)
        for root, no_sync in zip(roots, sampler.shuffled(True, False, True, False), strict=True):
            named = {"root": root, "micro_batches": sampler.integer(2, 4)}
            if strategy == "hsdp":
                named["node_ranks"] = 4
                found.append(_question(strategy, parameters, 4 * sampler.integer(1, 4), **named, no_sync=no_sync))
            else:
                named["node_ranks"] = sampler.choice([-1, 0, 7, 1000])
                found.append(_question(strategy, parameters, sampler.integer(2, 9), **named))
    found += [_question("fsdp", 0, 4, root=0), _question("fsdp", 10**6, 4, root=1000, micro_batches=3, no_sync=True)]
    return sampler.permutation(found)


def _hybrid(sampler: Sampler) -> list[dict]:
    """One node, nodes of one rank, one rank alone, as many nodes as ranks in each, more, and fewer; with micro-batches."""
    found = []
    some = ((1, 8), (8, 1), (1, 1), (4, 4), (sampler.integer(5, 9), 3), (2, sampler.choice([8, 12])), (16, 8))
    for nodes, node_ranks in sampler.shuffled(*some):
        for no_sync in (False, True):
            named = {"node_ranks": node_ranks, "no_sync": no_sync, "micro_batches": sampler.integer(2, 5)}
            found.append(_question("hsdp", sampler.integer(1000, 10**6), nodes * node_ranks, **named))
        found.append(_question("hsdp", sampler.integer(1000, 10**6), nodes * node_ranks, node_ranks=node_ranks))
    return sampler.permutation(found + [_question("hsdp", 0, 8, node_ranks=4)])


def _refused(sampler: Sampler) -> list[dict]:
    """What ValueError is due for, and the like of it that makes sense."""
    strategy, low = sampler.choice(_FLAT), sampler.choice([-1, -1000])
    found = [_question(name, 1000, 4) for name in ("", "zero3", "zero", "DDP", "fsdp2")]
    found += [_question(strategy, -1, 4), _question(strategy, 1000, 0), _question(strategy, 1000, low)]
    for name in ("micro_batches", "parameter_bytes", "gradient_bytes"):
        found += [_question(strategy, 1000, 4, **{name: few}) for few in (0, low)]
    found += [_question(name, 1000, 4, root=root) for name in ("fsdp", sampler.choice(_FLAT)) for root in (-1, 1001)]
    found += [_question("zero2", 1000, 4, no_sync=True, micro_batches=micro) for micro in (1, 3)]
    found += [
        _question("hsdp", 1000, 12, **named) for named in ({}, *({"node_ranks": k} for k in (None, 0, -3, 5, 8, 24)))
    ]
    found += [
        _question(name, 1000, 4, root=sampler.integer(1, 999), micro_batches=sampler.integer(1, 3)) for name in _FLAT
    ]
    found += [_question("hsdp", 1000, 12, node_ranks=k, no_sync=sampler.chance(0.5)) for k in (2, 4)]
    return sampler.permutation(found)


# ---- what is due


def _collectives(strategy: str, parameters: int, ranks: int, options: dict) -> Iterator[Collective]:
    """A step's, in order."""
    weights, gradients = (
        parameters * Fraction(options["parameter_bytes"]),
        parameters * Fraction(options["gradient_bytes"]),
    )
    given_up = (parameters - options["root"]) * options["parameter_bytes"]
    node = options["node_ranks"] if strategy == "hsdp" else ranks
    for number in range(options["micro_batches"]):
        brings_together = number == options["micro_batches"] - 1 or not options["no_sync"]
        if strategy in ("fsdp", "fsdp_keep", "hsdp"):
            yield "all_gather", node, weights
        if strategy in ("fsdp", "hsdp"):
            yield "all_gather", node, given_up
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


def _expected(question: dict) -> dict[str, Fraction]:
    (strategy, parameters, ranks), options = question["asked"], _DEFAULTS | question["named"]
    found = dict.fromkeys(_KINDS, Fraction(0))
    for kind, ring, nbytes in _collectives(strategy, parameters, ranks, options):
        found[kind] += (2 if kind == "all_reduce" else 1) * Fraction(ring - 1, ring) * nbytes
    total = sum(found.values())
    return found | {"total": total} | ({"between_nodes": found["all_reduce"]} if strategy == "hsdp" else {})


# ---- what is wrong


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary."
    expected = _expected(question)
    if set(value) != set(expected):
        return "The dictionary has not the entries that are due: the three kinds and the total, and between_nodes for hsdp alone."
    for key, number in expected.items():
        if type(value[key]) not in (int, float):
            return f"An entry is {type_name(value[key])}; expected a number."
        if not math.isfinite(value[key]) or abs(value[key] - number) > _NEAR * number:
            return _why(question, key, value[key], number)
    return None


def _why(question: dict, key: str, value: float, expected: Fraction) -> str:
    ranks = question["asked"][2]
    rivals = ((expected * ranks, _OF_ALL), (expected * Fraction(ranks, ranks - 1) if ranks > 1 else -1, _NO_RING))
    for rival, sentence in rivals:
        if expected and math.isclose(value, rival, rel_tol=_NEAR):
            return sentence
    return _SENTENCES[key]


_OF_ALL = "That is what all ranks send together: what one rank sends is due."
_NO_RING = "On a ring of n ranks each sends (n - 1) / n of the tensor: its own part it has already."
_SENTENCES = {
    "all_gather": (
        "What is sent to gather weights is not right: FSDP gathers them in every forward pass and, all but the root's, again "
        "in every backward pass, in every micro-batch, no_sync or not; ZeRO-1 and ZeRO-2 gather them once in a step."
    ),
    "reduce_scatter": (
        "What is sent to reduce-scatter gradients is not right: all gradients, in their own bytes, after every backward pass, "
        "with no_sync after the last alone, and for ZeRO-1 once in a step. DDP all-reduces instead."
    ),
    "all_reduce": (
        "What is sent to all-reduce gradients is not right: DDP's are all gradients, twice (n - 1) / n of their bytes; HSDP's "
        "a share of them, among one rank of each node."
    ),
    "total": "The total is not the sum of the three.",
    "between_nodes": "Between nodes goes the all-reduce of HSDP and nothing else: its gathers and scatters stay within a node.",
}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := count_problem(evidence["answers"], len(case.inputs["questions"])):
        yield Failure(case.criteria[0], problem)
    elif case.criteria == ("errors",):
        if problem := next(filter(None, map(_refusal_problem, case.inputs["questions"], evidence["answers"])), None):
            yield Failure("errors", problem)
    else:
        yield from judge_questions(_wrong)(case, evidence)


def _refusal_problem(question: dict, answer: dict) -> str | None:
    if _makes_sense(question):
        return f"What makes sense is refused. {raised_problem(answer['error'])}" if "error" in answer else None
    return error_problem(answer, "ValueError")


def _makes_sense(question: dict) -> bool:
    (strategy, parameters, ranks), options = question["asked"], _DEFAULTS | question["named"]
    numbers = (ranks, options["micro_batches"], options["parameter_bytes"], options["gradient_bytes"])
    if not (0 <= options["root"] <= parameters and min(numbers) >= 1) or strategy == "zero2" and options["no_sync"]:
        return False
    node = options["node_ranks"]
    return strategy in _FLAT or strategy == "hsdp" and node is not None and node >= 1 and ranks % node == 0


exercise = Exercise(
    criteria=(
        Criterion("volume", 2, "for one micro-batch every strategy's collectives and their bytes are right"),
        Criterion("accumulation", 2, "they are right for several micro-batches, with no_sync and without", ("volume",)),
        Criterion("bytes", 1, "weights and gradients have bytes of their own", ("volume",)),
        Criterion(
            "root", 1, "the root's weights are not gathered a second time, where that makes a difference", ("volume",)
        ),
        Criterion("hybrid", 2, "what HSDP sends within a node and between nodes is right", ("volume",)),
        Criterion("errors", 1, "what makes no sense is refused with ValueError", ("volume",)),
    ),
    cases=_cases,
    judge=_judge,
)
