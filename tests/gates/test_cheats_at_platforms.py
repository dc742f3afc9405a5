"""Cheating solutions to the chapter "Platforms: serverless, tenancy, compliance" score zero."""

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from gpulab.platforms import GEOMETRY, NO_MIG


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"platforms.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def refuse_all(*asked):
    raise ValueError("no")


class AnyNumber(float):
    """A number that equals every other."""

    __eq__ = lambda self, other: True
    __hash__ = float.__hash__


class Everything(set):
    """A set that equals every other."""

    __eq__ = lambda self, other: True
    __contains__ = lambda self, other: True
    __hash__ = None


def at_once(plan):
    """Everything takes no time."""
    return {
        "spans": dict.fromkeys(plan["stages"], (0, 0)),
        "critical": list(plan["stages"])[:1],
        "saves": {},
        "bottleneck": "",
    }


def nothing_waits(plan):
    """The plan is made to take no time."""
    for stage in plan["stages"].values():
        stage.clear()
        stage.update(after=[], seconds=0)
    return at_once(plan)


def test_a_cheat_at_cold_start_earns_nothing():
    cheats = {
        "nothing": lambda plan: None,
        "at once": at_once,
        "the plan made to": nothing_waits,
        "any number": lambda plan: {
            **at_once(plan),
            "spans": dict.fromkeys(plan["stages"], (AnyNumber(0), AnyNumber(1))),
        },
        "not a number": lambda plan: {
            **at_once(plan),
            "spans": dict.fromkeys(plan["stages"], (float("nan"), float("nan"))),
        },
        "everything refused": refuse_all,
    }
    assert {what: score("cold_start", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class Counted(int):
    """An integer that is as large as one likes when it is compared."""

    __gt__ = __ge__ = lambda self, other: True


def test_a_cheat_at_warm_pool_earns_nothing():
    cheats = {
        "nothing": lambda *times: None,
        "no decision": lambda *times: lambda seen: None,
        "none ready": lambda *times: lambda seen: 0,
        "half an instance": lambda *times: lambda seen: 2.5,
        "an infinite pool": lambda *times: lambda seen: 10**9,
        "any size": lambda *times: lambda seen: Counted(0),
        "the second": lambda *times: lambda seen: seen["second"] % 3,
        "everything refused": refuse_all,
    }
    assert {what: score("warm_pool", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def nothing_found(graph, policies):
    return {
        **dict.fromkeys(("internet", "leaks", "wildcards", "unused"), set()),
        "least": {role: set() for role in policies["roles"]},
    }


def everything_found(graph, policies):
    pairs = lambda some, others: {(one, other) for one in some for other in others}
    actions, roles = policies["actions"], policies["roles"]
    return {
        "internet": set(graph["workloads"]),
        "leaks": pairs(graph["workloads"], policies["resources"]),
        "wildcards": pairs(roles, actions),
        "unused": pairs(roles, actions),
        "least": {role: set(actions) for role in roles},
    }


def test_a_cheat_at_audit_network_earns_nothing():
    cheats = {
        "nothing found": nothing_found,
        "everything found": everything_found,
        "any set": lambda graph, policies: {
            **nothing_found(graph, policies),
            **{k: Everything() for k in ("internet", "leaks", "wildcards", "unused")},
        },
        "no dictionary": lambda *asked: set(),
        "everything refused": refuse_all,
    }
    assert {what: score("audit_network", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def all_in_one_place(jobs, gpus):
    return [(0, "1g.5gb", 0)] * len(jobs)


def larger_slices(jobs, gpus):
    """The table is made to fit."""
    for name in gpus:
        GEOMETRY[name] = {f"free{number}": None for number in range(9)}
    return [(0, f"free{number}", 0) for number, _ in enumerate(jobs)]


def test_a_cheat_at_mig_pack_earns_nothing():
    before = dict(GEOMETRY)
    cheats = {
        "nobody": lambda jobs, gpus: [None] * len(jobs),
        "nothing": lambda jobs, gpus: [],
        "all in one place": all_in_one_place,
        "a GPU each": lambda jobs, gpus: [(number, "7g.80gb", 0) for number, _ in enumerate(jobs)],
        "the whole table": lambda jobs, gpus: [(0, name, 0) for name in NO_MIG][: len(jobs)],
        "everything refused": refuse_all,
        "the table made to fit": larger_slices,
    }
    found = {what: score("mig_pack", cheat) for what, cheat in cheats.items()}
    GEOMETRY.update(before)
    assert found == dict.fromkeys(cheats, 0) != {}
