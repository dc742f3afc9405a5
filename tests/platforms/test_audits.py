"""The audit: patterns, AWS's order of evaluation by a second reading of its rules, and reachability by matrices."""

import random

import numpy as np

from gpulab.platforms import Endpoint, Graph, Policies, Statement, allows, audit, least, matches, reached

NAMES = ["s3:GetObject", "s3:GetObjectAcl", "s3:PutObject", "s3.GetObject", "kms:Decrypt", ""]
PATTERNS = [
    "*",
    "s3:*",
    "s3:Get*",
    "*Object",
    "*:*Object*",
    "s3:GetObject",
    "s3:**",
    "",
    "s3.Get*",
    "[s]3:*",
    "s3:Get?bject",
]


def by_hand(pattern, name):
    """A star at a time."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(by_hand(pattern[1:], name[cut:]) for cut in range(len(name) + 1))
    return name[:1] == pattern[0] and by_hand(pattern[1:], name[1:])


def test_a_star_is_the_only_sign_in_a_pattern():
    for pattern in PATTERNS:
        for name in NAMES:
            assert matches(pattern, name) == by_hand(pattern, name), (pattern, name)
    assert matches("s3:*", "s3:") and not matches("s3.Get*", "s3:GetObject") and not matches("[s]3:*", "s3:GetObject")


def decided(statements, action, resource):
    """The documentation's steps: an explicit deny ends it, then an explicit allow is looked for, else it is an implicit deny."""
    covering = [
        s
        for s in statements
        if any(map(by_hand, s.actions, [action] * 9)) and any(map(by_hand, s.resources, [resource] * 9))
    ]
    for statement in covering:
        if statement.effect == "Deny":
            return False
    for statement in covering:
        if statement.effect == "Allow":
            return True
    return False


def drawn_statements(rng):
    return [
        Statement(
            rng.choice(("Allow", "Deny")),
            tuple(rng.sample(PATTERNS, rng.randint(0, 2))),
            tuple(rng.sample(PATTERNS, rng.randint(0, 2))),
        )
        for _ in range(rng.randint(0, 4))
    ]


def test_policies_are_evaluated_as_the_documentation_says_in_whatever_order_they_stand():
    rng, met = random.Random(1), set()
    for _ in range(400):
        statements = drawn_statements(rng)
        action, resource = rng.choice(NAMES), rng.choice(NAMES)
        found = allows(statements, action, resource)
        assert found == decided(statements, action, resource) == allows(statements[::-1], action, resource)
        met.add(found)
    assert met == {True, False}


def test_what_is_reached_is_the_closure_of_the_routes():
    rng = random.Random(2)
    for _ in range(60):
        places = [f"p{n}" for n in range(rng.randint(2, 9))]
        routes = {one: rng.sample(places, rng.randint(0, min(3, len(places)))) for one in places}
        doors = {one: Endpoint() for one in rng.sample(places, rng.randint(0, 2))}
        step = np.array([[other in routes[one] and one not in doors for other in places] for one in places])
        closure = step.copy()
        for _ in places:
            closure = closure | (closure.astype(int) @ step.astype(int) > 0)
        graph = Graph(routes, {}, doors)
        for row, one in zip(closure, places, strict=True):
            assert reached(graph, one) == {other for other, comes in zip(places, row, strict=True) if comes}


def test_a_policy_of_what_a_role_needs_allows_its_log_and_leaves_nothing_unused():
    rng = random.Random(3)
    resources = {"ours": True, "theirs": False}
    for _ in range(60):
        roles = {"one": drawn_statements(rng), "two": drawn_statements(rng)}
        log = [
            (rng.choice(list(roles)), rng.choice(NAMES), rng.choice(list(resources))) for _ in range(rng.randint(0, 12))
        ]
        needed = least(Policies(roles, NAMES, resources, log))
        tight = {role: [*roles[role], Statement("Deny", tuple({*NAMES} - needed[role]))] for role in roles}
        before, after = (audit(Graph({}, {}), Policies(some, NAMES, resources, log)) for some in (roles, tight))
        assert after["unused"] == set() and after["least"] == before["least"] == needed
