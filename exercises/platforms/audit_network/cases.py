"""E20.3: generates networks and access policies such that each rule decides at least one case."""

from collections.abc import Iterator
from typing import Any

from autograder.core.sampler import Sampler

Statement = dict[str, Any]
VERBS = ("Get", "GetObject", "GetObjectAcl", "PutObject", "DeleteObject", "List")


def allow(actions: list[str], resources: list[str] | None = None) -> Statement:
    return {"effect": "Allow", "actions": actions, "resources": ["*"] if resources is None else resources}


def deny(actions: list[str], resources: list[str] | None = None) -> Statement:
    return allow(actions, resources) | {"effect": "Deny"}


def question(
    routes: dict[str, list[str]] | None = None,
    workloads: dict[str, str] | None = None,
    endpoints: dict[str, list[Statement]] | None = None,
    roles: dict[str, list[Statement]] | None = None,
    actions: list[str] | None = None,
    resources: dict[str, bool] | None = None,
    log: list[list[str]] | None = None,
) -> dict:
    graph = {"routes": routes or {}, "workloads": workloads or {}, "endpoints": endpoints or {}}
    policies = {"roles": roles or {}, "actions": actions or [], "resources": resources or {}, "log": log or []}
    return {"graph": graph, "policies": policies}


def routes(sampler: Sampler) -> Iterator[dict]:
    """Chains, circles, dead ends, endpoints on the way, other workloads on the way, and one that is a place of no key."""
    roles = {"idle": []}
    for length in sampler.shuffled(0, 1, 2, sampler.integer(4, 7)):
        chain = ["app", *(f"hop{number}" for number in range(length)), "internet"]
        ways = {one: sampler.permutation([other, "dead end"]) for one, other in zip(chain, chain[1:])}
        yield question(ways, {"app": "idle", "db": "idle"}, roles=roles)
    circle = {"a": ["b"], "b": ["c"], "c": ["a", "b"]}
    yield question(circle, {"a": "idle"}, roles=roles)
    yield question(
        {**circle, "b": ["c", "gateway"], "gateway": ["internet"]}, {"a": "idle", "c": "idle", "d": "idle"}, roles=roles
    )
    through = {"app": ["door"], "door": ["internet"], "other": ["door", "app"]}
    yield question(through, {"app": "idle", "other": "idle"}, {"door": []}, roles)
    yield question(through, {"app": "idle", "other": "idle"}, {}, roles)
    yield question({"internet": ["app"], "peer": ["app"]}, {"app": "idle", "peer": "idle"}, roles=roles)
    yield question(
        {"app": ["worker"], "worker": ["nat"], "nat": ["internet"]}, {"app": "idle", "worker": "idle"}, roles=roles
    )
    yield question({"app": ["my-internet", "internet gateway"]}, {"app": "idle"}, roles=roles)
    yield question({}, {"app": "idle"}, roles=roles)


def _permissions(sampler: Sampler) -> Iterator[list[Statement]]:
    """Policies of one role: what denies before and after what allows, patterns, and literal signs in them."""
    yield [allow(["s3:*"]), deny(["s3:Delete*"])]
    yield [deny(["s3:*Object"], ["*-data"]), allow(["*"], ["*"])]
    yield [allow(["s3:Get*", "s3:PutObject"], ["our-data", "their.bucket"])]
    yield [allow(["s3:GetObject"]), allow(["s3:PutObject"], ["our*", "*r[1]"]), deny(["s3:GetObject"], ["th*bucket"])]
    yield [allow(["s3:Get?bject", "s3:Put.bject", "s3:[A-Z]*"])]
    yield [deny(["*"]), allow(["*"])]
    yield [allow(["s3:*Object*"]), deny(["s3:PutObject"], ["our-data"])]
    yield [allow(["s3:**Acl", "s3:Li*t*"]), deny([], ["*"]), allow(["*"], [])]
    yield [deny(["s3:List"])]
    yield []


_ACTIONS = [f"s3:{verb}" for verb in VERBS]
_RESOURCES = {"our-data": True, "our[1]": True, "their.bucket": False, "their-bucket": False, "nobody-data": False}


def leaks(sampler: Sampler) -> Iterator[dict]:
    """Each role's policy against endpoints that allow all, some, nothing, or all but; near, far, and out of reach."""
    doors = {
        "open": [allow(["*"])],
        "ours": [allow(["*"], ["our*"])],
        "shut": [],
        "but": [allow(["*"]), deny(["*"], ["their*"])],
        "read": [deny(["s3:Put*"]), allow(["s3:*Object*"])],
    }
    for statements in sampler.permutation(list(_permissions(sampler))):
        for name in sampler.permutation(list(doors))[:3]:
            yield _door(sampler, statements, {"door": doors[name]})
    free, get = [allow(["s3:*"])], [allow(["s3:GetObject"])]
    yield _door(sampler, free, {"door": doors["open"]})
    yield _door(sampler, free, {"door": doors["ours"]})
    yield _door(sampler, get, {"door": [allow(["s3:PutObject"])]})
    yield _door(
        sampler,
        get,
        {
            "door": [allow(["s3:GetObject"], ["our*"]), allow(["s3:PutObject"])],
            "second": [allow(["s3:GetObject"], ["their-bucket"])],
        },
    )
    yield _door(
        sampler,
        [allow(["s3:PutObject"], ["their*"]), allow(["s3:GetObject"])],
        {"door": [deny(["s3:GetObject"]), allow(["*"])]},
    )
    yield _door(sampler, get, {"door": [allow(["s3:GetObjectAcl"])]})
    yield _door(sampler, [allow(["s3:GetObject*"], ["their-bucket*"])], {"door": [allow(["*s3:GetObject"])]})
    yield _door(sampler, [allow(["*"]), deny(["s3:*"])], {"door": [allow(["*"])]})
    far = {"app": ["hub"], "hub": ["hop", "app"], "hop": ["far door"]}
    yield question(
        far, {"app": "role", "lone": "role"}, {"far door": doors["open"]}, {"role": free}, _ACTIONS, _RESOURCES
    )
    yield question(
        {"app": ["near door"], "near door": ["far door"]},
        {"app": "role"},
        {"near door": doors["shut"], "far door": doors["open"]},
        {"role": free},
        _ACTIONS,
        _RESOURCES,
    )
    yield question(
        {"app": ["internet"], "pod": ["app"]},
        {"app": "role", "pod": "role"},
        {"door": doors["open"]},
        {"role": free},
        _ACTIONS,
        _RESOURCES,
    )
    both = {"app": "reader", "job": "writer"}
    reader, writer = [allow(["s3:Get*"])], [allow(["s3:Put*"]), deny(["s3:*"], ["nobody*"])]
    yield question(
        {"app": ["door"], "job": ["app"]},
        both,
        {"door": [allow(["s3:PutObject"])]},
        {"reader": reader, "writer": writer},
        _ACTIONS,
        _RESOURCES,
    )


def _door(sampler: Sampler, statements: list[Statement], endpoints: dict[str, list[Statement]]) -> dict:
    ways = {"app": sampler.permutation([*endpoints, "elsewhere"])}
    return question(ways, {"app": "role"}, endpoints, {"role": statements}, _ACTIONS, _RESOURCES)


def permissions(sampler: Sampler) -> Iterator[dict]:
    """Roles with policies and a log that uses some, all or none of what they may, and what they may no longer."""
    policies = list(_permissions(sampler))
    for number, statements in enumerate(sampler.permutation(policies)):
        others = sampler.choice(policies)
        log = [
            [sampler.choice(("role", "other")), sampler.choice(_ACTIONS), sampler.choice(list(_RESOURCES))]
            for _ in range((0, 3, 9, 25)[number % 4])
        ]
        yield question(roles={"role": statements, "other": others}, actions=_ACTIONS, resources=_RESOURCES, log=log)
    late = [allow(["s3:*"]), deny(["s3:Delete*"])]
    for log in sampler.shuffled([], [["role", "s3:DeleteObject", "our-data"]]):
        yield question(roles={"role": late}, actions=_ACTIONS, resources=_RESOURCES, log=log)
    for statements in sampler.shuffled(late[::-1], [allow(["s3:Get?bject", "s3:Put.bject"])]):
        yield question(roles={"role": statements}, actions=_ACTIONS, resources=_RESOURCES)
    used = [["role", action, "our-data"] for action in _ACTIONS]
    yield question(
        roles={"role": [allow(["s3:*"])], "other": [allow(["s3:*"])]}, actions=_ACTIONS, resources=_RESOURCES, log=used
    )
    denied = [deny(["s3:PutObject"], ["our-data"]), allow(["s3:PutObject", "s3:GetObject"])]
    log = [["role", "s3:PutObject", "our-data"], ["role", "s3:DeleteObject", "our-data"]]
    yield question(roles={"role": denied}, actions=_ACTIONS, resources=_RESOURCES, log=log)
    yield question(
        roles={"role": denied}, actions=_ACTIONS, resources=_RESOURCES, log=[*log, ["role", "s3:PutObject", "our[1]"]]
    )
    yield question(roles={"role": [allow(["s3:GetObject"], ["nowhere"])]}, actions=_ACTIONS, resources=_RESOURCES)


def unsound(sampler: Sampler) -> Iterator[dict]:
    """An effect that there is not, in a role and in an endpoint; and roles that there are not."""
    fine = {"role": [allow(["s3:*"])]}
    for effect in sampler.shuffled("allow", "DENY", "", "Audit"):
        yield question(
            roles={"role": [*fine["role"], allow(["s3:Get"]) | {"effect": effect}]},
            actions=_ACTIONS,
            resources=_RESOURCES,
        )
    yield question({}, {}, {"door": [allow(["*"]), deny(["*"]) | {"effect": "Block"}]}, fine, _ACTIONS, _RESOURCES)
    yield question({"app": []}, {"app": "nobody"}, {}, fine, _ACTIONS, _RESOURCES)
    yield question({}, {}, {}, fine, _ACTIONS, _RESOURCES, [["nobody", "s3:Get", "our-data"]])
