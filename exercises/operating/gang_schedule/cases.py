"""Queues before clusters for E21.1: drawn at random, and taken where they hold what a wrong scheduler turns on."""

from collections.abc import Callable, Iterator

from autograder.core.sampler import Sampler
from gpulab.fleet import backfill, earliest_start, greedy, in_order, placements
from gpulab.fleet.policies import begun

NODE = 8
Question = dict
"""``jobs`` and ``cluster``, as the function gets them."""


def head_of(question: Question) -> tuple[int, dict, float]:
    """How many jobs start in order, the cluster after that, and the head's hour; where there is no head it is 0."""
    jobs, cluster = question["jobs"], question["cluster"]
    started = in_order(jobs, cluster)
    for job, (_, place) in zip(jobs, started, strict=False):
        cluster = begun(cluster, place, job["hours"])
    count = len(started)
    return count, cluster, earliest_start(jobs[count]["gpus"], cluster) if count < len(jobs) else 0.0


def _drawn(sampler: Sampler) -> Question:
    """A few nodes on which small and large jobs run, and a queue of all sizes."""
    nodes = sampler.integer(3, 5)
    free, running = [NODE] * nodes, []
    if sampler.chance(0.4):
        wide = sampler.permutation(range(nodes))[:2]
        running.append({"nodes": dict.fromkeys(wide, NODE), "left": sampler.integer(1, 9)})
        for node in wide:
            free[node] = 0
    for node in range(nodes):
        while free[node] and sampler.chance(0.6):
            gpus = sampler.choice([n for n in (1, 2, 3, 4, 6, 8) if n <= free[node]])
            running.append({"nodes": {node: gpus}, "left": sampler.integer(1, 9)})
            free[node] -= gpus
    sizes = (1, 2, 3, 4, 5, 6, 8, 8, 16, 16, 24)
    jobs = [
        {
            "name": f"{sampler.choice(('train', 'tune', 'sweep', 'eval'))}-{number}",
            "gpus": sampler.choice([s for s in sizes if s <= NODE * nodes]),
            "hours": sampler.integer(1, 12),
        }
        for number in range(sampler.integer(3, 7))
    ]
    return {"jobs": jobs, "cluster": {"free": free, "running": sampler.permutation(running)}}


def _until(sampler: Sampler, *holds: Callable[[Question], bool], each: int = 2) -> Iterator[Question]:
    """For every condition as many queues of which it holds."""
    for one in sampler.shuffled(*holds):
        found = 0
        while found < each:
            question = _drawn(sampler)
            if one(question):
                yield question
                found += 1


def _behind(question: Question) -> list[tuple[dict, dict]]:
    """Jobs that backfilling starts behind the head, with their placements."""
    count = head_of(question)[0]
    jobs = {job["name"]: job for job in question["jobs"]}
    return [(jobs[name], place) for name, place in backfill(question["jobs"], question["cluster"])[count:]]


def _head(question: Question) -> dict | None:
    count = head_of(question)[0]
    return question["jobs"][count] if count < len(question["jobs"]) else None


def _free(question: Question) -> list[int]:
    """When the jobs in order have started."""
    return head_of(question)[1]["free"]


# ---- what a queue may hold


def _all_fit(question: Question) -> bool:
    return _head(question) is None and len(question["jobs"]) > 2


def _scattered(question: Question) -> bool:
    """The head's GPUs are free, and not in whole nodes; somebody has started before it."""
    head = _head(question)
    return (
        head is not None and head["gpus"] > NODE and sum(_free(question)) >= head["gpus"] and head_of(question)[0] > 0
    )


def _split(question: Question) -> bool:
    """A small head's GPUs are free, and not in one node."""
    head = _head(question)
    return (
        head is not None
        and 1 < head["gpus"] <= NODE
        and sum(_free(question)) >= head["gpus"]
        and head_of(question)[0] > 0
    )


def _large_starts(question: Question) -> bool:
    return any(job["gpus"] > NODE for job in question["jobs"][: head_of(question)[0]]) and _head(question) is not None


def _unsorted(question: Question) -> bool:
    """A larger job starts before a smaller one, and a smaller before a larger."""
    sizes = [job["gpus"] for job in question["jobs"][: head_of(question)[0]]]
    return len(sizes) > 2 and sizes not in (sorted(sizes), sorted(sizes, reverse=True))


def _greedy_delays(question: Question) -> bool:
    head, (_, _, due) = _head(question), head_of(question)
    if head is None:
        return False
    cluster, jobs = question["cluster"], {job["name"]: job for job in question["jobs"]}
    for name, place in greedy(question["jobs"], cluster):
        cluster = begun(cluster, place, jobs[name]["hours"])
    return earliest_start(head["gpus"], cluster) > due


def _large_head_is_delayed(question: Question) -> bool:
    return _greedy_delays(question) and _head(question)["gpus"] > NODE


def _hours_decide(question: Question) -> bool:
    """A job starts that takes what the head will need, and has ended by then."""
    head = _head(question)
    if head is None:
        return False
    _, cluster, due = head_of(question)
    for job, place in _behind(question):
        if earliest_start(head["gpus"], begun(cluster, place, 1e9)) > due >= job["hours"]:
            return True
    return False


def _in_the_hour(question: Question) -> bool:
    """A job ends in the very hour of the head, which needs what it has."""
    head = _head(question)
    if head is None:
        return False
    _, cluster, due = head_of(question)
    return any(
        job["hours"] == due and earliest_start(head["gpus"], begun(cluster, place, due + 0.5)) > due
        for job, place in _behind(question)
    )


def _place_decides(question: Question) -> bool:
    """A job starts that runs beyond the head's hour, where the head is not."""
    return any(job["hours"] > head_of(question)[2] for job, _ in _behind(question))


def _not_the_tightest(question: Question) -> bool:
    """A job behind the head starts, and not on the tightest node that has room: that one the head needs."""
    free = list(_free(question))
    for job, place in _behind(question):
        if job["gpus"] <= NODE and free[min(place)] > min(there for there in free if there >= job["gpus"]):
            return True
        for node, gpus in place.items():
            free[node] -= gpus
    return False


def _another_is_passed_over(question: Question) -> bool:
    """Somebody behind the head does not start, and somebody behind that one does, whom it would have to wait for."""
    head = _head(question)
    if head is None:
        return False
    count, cluster, _ = head_of(question)
    names = {job["name"] for job, _ in _behind(question)}
    for number, job in enumerate(question["jobs"][count + 1 :]):
        if job["name"] not in names:
            mine = earliest_start(job["gpus"], cluster)
            for later, place in _behind(question):
                if (
                    later in question["jobs"][count + 2 + number :]
                    and earliest_start(job["gpus"], begun(cluster, place, later["hours"])) > mine
                ):
                    return True
    return False


def _tight_matters(question: Question) -> bool:
    """A job in order has nodes of unequal room to choose from, and the first of them is not the tightest, nor the last."""
    free = list(question["cluster"]["free"])
    for job, (_, place) in zip(question["jobs"], in_order(question["jobs"], question["cluster"]), strict=False):
        room = [there for there in free if there >= job["gpus"]]
        if job["gpus"] <= NODE and room[0] > min(room) and room[-1] > min(room) < max(room):
            return True
        for node, gpus in place.items():
            free[node] -= gpus
    return False


def _last_head_delays(question: Question) -> bool:
    """A scheduler that has the last job that did not fit in mind delays the first."""
    head = _head(question)
    if head is None:
        return False
    cluster, last, due = question["cluster"], None, 0.0
    for job in question["jobs"]:
        ways = [begun(cluster, place, job["hours"]) for place in placements(job["gpus"], cluster["free"])]
        ways = [after for after in ways if last is None or earliest_start(last["gpus"], after) <= due]
        if ways:
            cluster = ways[0]
        else:
            last, due = job, earliest_start(job["gpus"], cluster)
    return earliest_start(head["gpus"], cluster) > head_of(question)[2]


# ---- strata


def whole(sampler: Sampler) -> Iterator[Question]:
    yield {"jobs": [], "cluster": _drawn(sampler)["cluster"]}
    yield from _until(sampler, _all_fit, _scattered, _split, _large_starts, _unsorted)


def bounded(sampler: Sampler) -> Iterator[Question]:
    yield from _until(sampler, _greedy_delays, _large_head_is_delayed, _hours_decide, _last_head_delays, each=3)


def used(sampler: Sampler) -> Iterator[Question]:
    yield from _until(
        sampler, _scattered, _hours_decide, _in_the_hour, _place_decides, _not_the_tightest, _another_is_passed_over
    )


def tight(sampler: Sampler) -> Iterator[Question]:
    yield from _until(sampler, _tight_matters, each=6)


def refused(sampler: Sampler) -> Iterator[Question]:
    """A job that can never run, first, in the middle and last, and where nothing is free."""
    for gpus in sampler.shuffled(0, -8, 12, 9, 20, NODE * 6, NODE * 9):
        question = _drawn(sampler)
        question["jobs"].insert(sampler.integer(0, len(question["jobs"])), {"name": "odd", "gpus": gpus, "hours": 2})
        yield question
    full = {"free": [0, 0], "running": [{"nodes": {0: 8, 1: 8}, "left": 3}]}
    yield {"jobs": [{"name": "wide", "gpus": 24, "hours": 1}], "cluster": full}
