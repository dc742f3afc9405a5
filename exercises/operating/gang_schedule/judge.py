"""E21.1 gang_schedule: cases and judge. An answer is played, start by start, on the cluster."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.operating.gang_schedule import cases as queues
from gpulab.fleet import earliest_start, fits, placements
from gpulab.fleet.policies import begun


def _cases(sampler: Sampler) -> Iterator[Questions]:
    strata = {"gang": queues.whole, "bounded": queues.bounded, "used": queues.used, "tight": queues.tight}
    for criteria, drawn in strata.items():
        yield ask(criteria, list(drawn(sampler)))
    yield ask("errors", list(queues.refused(sampler)), raises="ValueError")


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, list):
        return f"The function returned {type_name(value)}; expected a list of pairs of a name and a placement."
    jobs = {job["name"]: job for job in question["jobs"]}
    for pair in value:
        if problem := _pair_problem(pair, jobs):
            return problem
    if len({name for name, _ in value}) < len(value):
        return "A job is started twice."
    return _played(criteria, question, value)


def _pair_problem(pair: Any, jobs: dict) -> str | None:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or pair[0] not in jobs:
        return "An entry of the list is no pair of a waiting job's name and a placement."
    placement = pair[1]
    if not isinstance(placement, dict) or {type(part) for part in (*placement, *placement.values())} - {int}:
        return "A placement is a dictionary from a node's number to a number of its GPUs."
    if sum(placement.values()) != jobs[pair[0]]["gpus"] or min(placement.values(), default=0) < 1:
        return "A job got a part of its GPUs, or none: it holds them and waits for the rest, as others do for what it holds."
    return None


def _played(criteria: str, question: dict, value: list) -> str | None:
    """Every start in turn: whether it can be, and, after that, what the criterion asks."""
    waiting, answers, cluster = list(question["jobs"]), list(value), question["cluster"]
    while waiting and fits(waiting[0]["gpus"], cluster["free"]):
        job = waiting.pop(0)
        if not answers:
            return "A job that fits, and before which all others have started, does not start."
        name, place = answers.pop(0)
        if name != job["name"]:
            return "Jobs that fit do not start in the order of the queue."
        if problem := _placement_problem(job, place, cluster):
            return problem
        if criteria == "tight" and job["gpus"] <= queues.NODE and (problem := _tight_problem(job, place, cluster)):
            return problem
        cluster = begun(cluster, place, job["hours"])
    head = waiting[0] if waiting else None
    due = earliest_start(head["gpus"], cluster) if head else 0.0
    behind = {job["name"]: job for job in waiting}
    for name, place in answers:
        job = behind.pop(name)
        if problem := _placement_problem(job, place, cluster):
            return problem
        cluster = begun(cluster, place, job["hours"])
    if criteria == "bounded" and head and earliest_start(head["gpus"], cluster) > due:
        return "The job at the head of the queue starts later than it could have, since one behind it was let in: so a large job waits for ever."
    if criteria == "used" and any(_allowed(job, cluster, head, due) for job in behind.values() if job is not head):
        return "A job behind the head could have started without delaying it: GPUs stay idle for nothing."
    return None


def _placement_problem(job: dict, place: dict, cluster: dict) -> str | None:
    free = cluster["free"]
    if any(not 0 <= node < len(free) or gpus > free[node] for node, gpus in place.items()):
        return "A placement has GPUs that are not free, or nodes that are not there: others that start before it have them."
    if job["gpus"] <= queues.NODE and len(place) > 1:
        return "A job of up to eight GPUs is spread over nodes."
    if job["gpus"] > queues.NODE and any(gpus < queues.NODE for gpus in place.values()):
        return "A large job has parts of nodes; expected whole ones."
    return None


def _allowed(job: dict, cluster: dict, head: dict, due: float) -> bool:
    """Whether a job could start behind the head."""
    return any(
        earliest_start(head["gpus"], begun(cluster, place, job["hours"])) <= due
        for place in placements(job["gpus"], cluster["free"])
    )


def _tight_problem(job: dict, place: dict, cluster: dict) -> str | None:
    (node,), (tightest, *_) = place, placements(job["gpus"], cluster["free"])
    if cluster["free"][node] > cluster["free"][min(tightest)]:
        return "A small job was put on a node with more room than another on which it fits: whole nodes are for those that need them."
    return None


exercise = answers(
    criteria=(
        Criterion("gang", 3, "jobs start whole, where they fit, and in order as long as they fit"),
        Criterion("bounded", 3, "nobody is let in who delays the head of the queue", ("gang",)),
        Criterion("used", 2, "whoever can start without delaying the head does"),
        Criterion("tight", 1, "small jobs in order go where the fewest GPUs are free", ("gang",)),
        Criterion("errors", 1, "jobs that can never run are refused with ValueError", ("gang",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["jobs"], question["cluster"]),
    wrong=_wrong,
    kept="The function changed the jobs or the cluster that it was given: the caller still needs them.",
    libraries=("numpy",),
)
