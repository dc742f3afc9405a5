"""E20.3 audit_network: cases and judge. What is due is what the library's audit finds, which has tests of its own."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.platforms.audit_network import cases as drawn
from gpulab.platforms import Endpoint, Graph, Policies, Statement, audit

_SETS = ("internet", "leaks", "wildcards", "unused")


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("internet", sampler.permutation(list(drawn.routes(sampler))))
    yield ask("leaks", sampler.permutation(list(drawn.leaks(sampler))))
    for criteria in ("wildcards", "unused", "least"):
        yield ask(criteria, sampler.permutation(list(drawn.permissions(sampler))))
    yield ask("errors", sampler.permutation(list(drawn.unsound(sampler))), raises="ValueError")


def _arguments(question: dict) -> tuple[dict, dict]:
    policies = question["policies"]
    return question["graph"], policies | {"log": [tuple(entry) for entry in policies["log"]]}


def _statements(told: list[dict]) -> tuple[Statement, ...]:
    return tuple(Statement(one["effect"], tuple(one["actions"]), tuple(one["resources"])) for one in told)


def _expected(question: dict) -> dict:
    graph, policies = question["graph"], question["policies"]
    endpoints = {place: Endpoint(_statements(told)) for place, told in graph["endpoints"].items()}
    roles = {role: _statements(told) for role, told in policies["roles"].items()}
    log = [tuple(entry) for entry in policies["log"]]
    return audit(
        Graph(graph["routes"], graph["workloads"], endpoints),
        Policies(roles, policies["actions"], policies["resources"], log),
    )


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) != {*_SETS, "least"}:
        return f"A dictionary of internet, leaks, wildcards, unused and least is due; {type_name(value)} came, or other entries."
    found = _members(value[criteria]) if criteria in _SETS else _least(value["least"])
    if found is None:
        return f"`{criteria}` is no set of what is due, or no dictionary from roles to sets of actions."
    expected = _expected(question)[criteria]
    if found == expected:
        return None
    if criteria == "least":
        return "The least of a role is what the log has of it, where its statements allow that on that resource, and no more."
    return _TOO_MANY[criteria] if found - expected else _TOO_FEW[criteria]


def _members(told: Any) -> set | None:
    """The set, where it is one of names, or of pairs of names."""
    if not isinstance(told, set):
        return None
    flat = [part for one in told for part in (one if isinstance(one, tuple) else (one,))]
    return told if all(type(part) is str for part in flat) else None


def _least(told: Any) -> dict | None:
    if not isinstance(told, dict):
        return None
    found = {role: _members(actions) for role, actions in told.items()}
    return None if None in found.values() else found


_TOO_FEW = {
    "internet": "A workload that can come to the internet is not named: over any number of other places, in circles too.",
    "leaks": "A resource of others that can be reached is not named: an endpoint lets pass whatever its own policy allows.",
    "wildcards": "A pattern with a star that allows is not named.",
    "unused": "A permission that the log does not have is not named: on one resource it is allowed, and that is enough.",
}
_TOO_MANY = {
    "internet": "A workload is said to come to the internet that does not: an endpoint leads nowhere else, and routes have a direction.",
    "leaks": (
        "A leak is named that is none: the role and one endpoint have to allow the same action on the resource, a statement that "
        "denies wins wherever it stands, and a star is the only sign in a pattern."
    ),
    "wildcards": "A pattern is named that has no star, or that denies: a wildcard that denies is no finding.",
    "unused": "Something is said to be unused that is used, or that is denied and so no permission.",
}


exercise = answers(
    criteria=(
        Criterion("internet", 2, "every workload that reaches the internet is named, and no other"),
        Criterion("leaks", 3, "what can leak through endpoints is found from the role's policy and the endpoint's"),
        Criterion("wildcards", 1, "patterns that allow with a star are named"),
        Criterion("unused", 2, "permissions that are in effect and never used are named"),
        Criterion("least", 1, "what each role needs is named", ("unused",)),
        Criterion("errors", 1, "effects and roles that there are not are refused with ValueError", ("internet",)),
    ),
    cases=_cases,
    arguments=_arguments,
    wrong=_wrong,
    kept="The function changed the graph or the policies.",
    libraries=("numpy",),
)
