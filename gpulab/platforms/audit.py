"""A network of routes, roles with policies, and endpoints with policies of their own: who reaches what, and who may do what.

The rules of evaluation are AWS's within one account: denied unless a statement allows, and a statement that denies wins. A
request through an endpoint has to pass the role's policy and the endpoint's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

INTERNET = "internet"


@dataclass(frozen=True)
class Statement:
    """``*`` in a pattern stands for any run of characters."""

    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)


@dataclass(frozen=True)
class Endpoint:
    """A private way to one service; ``policy``: who may do what through it."""

    policy: tuple[Statement, ...] = (Statement("Allow", ("*",)),)


@dataclass(frozen=True)
class Graph:
    """``routes``: where traffic may go from each place. ``workloads``: the role of each that runs somewhere."""

    routes: Mapping[str, Sequence[str]]
    workloads: Mapping[str, str]
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)


@dataclass(frozen=True)
class Policies:
    """``ours``: whether a resource is the customer's own. ``log``: (role, action, resource) of every request there was."""

    roles: Mapping[str, Sequence[Statement]]
    actions: Sequence[str]
    ours: Mapping[str, bool]
    log: Sequence[tuple[str, str, str]] = ()


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern, whose only sign is ``*``, stands for a name."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def allows(statements: Iterable[Statement], action: str, resource: str) -> bool:
    """Whether some statement allows it and none denies it."""
    effects = {
        statement.effect
        for statement in statements
        if any(matches(pattern, action) for pattern in statement.actions)
        and any(matches(pattern, resource) for pattern in statement.resources)
    }
    return effects == {"Allow"}


def reached(graph: Graph, start: str) -> set[str]:
    """Every place that traffic from ``start`` can come to, over any number of others; an endpoint leads nowhere else."""
    seen, frontier = set(), [start]
    while frontier:
        place = frontier.pop()
        for after in () if place in graph.endpoints else graph.routes.get(place, ()):
            if after not in seen:
                seen.add(after)
                frontier.append(after)
    return seen


def least(policies: Policies) -> dict[str, set[str]]:
    """What each role did, and may do: the actions that a policy of least privilege names."""
    used = {role: set() for role in policies.roles}
    for role, action, resource in policies.log:
        if allows(policies.roles[role], action, resource):
            used[role].add(action)
    return used


def audit(graph: Graph, policies: Policies) -> dict:
    """Findings by kind: ``internet`` (workloads), ``leaks`` (workload, resource), ``wildcards`` (role, pattern), ``unused``
    (role, action), and ``least``, the actions that each role needs."""
    done = {(role, action) for role, action, _ in policies.log}
    return {
        "internet": {workload for workload in graph.workloads if INTERNET in reached(graph, workload)},
        "leaks": {
            (workload, resource) for workload in graph.workloads for resource in _leaks(graph, policies, workload)
        },
        "wildcards": {
            (role, pattern)
            for role, statements in policies.roles.items()
            for one in statements
            if one.effect == "Allow"
            for pattern in one.actions
            if "*" in pattern
        },
        "unused": {
            (role, action) for role in policies.roles for action in _may(policies, role) if (role, action) not in done
        },
        "least": least(policies),
    }


def _may(policies: Policies, role: str) -> set[str]:
    statements = policies.roles[role]
    return {
        action for action in policies.actions if any(allows(statements, action, resource) for resource in policies.ours)
    }


def _leaks(graph: Graph, policies: Policies, workload: str) -> set[str]:
    """Resources of others that a workload can send to through an endpoint that it reaches."""
    own = policies.roles[graph.workloads[workload]]
    doors = [graph.endpoints[place].policy for place in reached(graph, workload) if place in graph.endpoints]
    foreign = [resource for resource, ours in policies.ours.items() if not ours]
    return {
        resource
        for resource in foreign
        for action in policies.actions
        if allows(own, action, resource) and any(allows(door, action, resource) for door in doors)
    }
