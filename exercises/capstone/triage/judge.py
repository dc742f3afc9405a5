"""E22.1 triage: cases and judge. The referee runs the job itself with the changes that came back."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from gpulab.capstone import FAULTS, FIGURES, OPTIONS, Job, Report, healthy, same_losses, targets
from gpulab.capstone.remembered import Remembered

MOST_RUNS_TO_SPARE = 3
_BROKEN = ("targets", "losses", "changes", "justified")
_SIZES = (4, 4, 4, 4, 3)
_NEAR = 1e-9
FALLS = 1.02
"""A figure is lower where it was this many times as high before."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    """Every part is broken in one job, by one of the ways that there are, and logging in both of its ways. And a job with nothing wrong."""
    for planted in sampler.permutation(_planted(sampler)):
        yield _case(_BROKEN, planted)
    yield _case(("healthy",), [])


def _planted(sampler: Sampler) -> list[list[str]]:
    ways: dict[str, list[str]] = {}
    for fault in FAULTS.values():
        ways.setdefault(fault.part, []).append(fault.name)
    both = ways.pop("logging")
    while True:
        names = iter(sampler.permutation([*both, *(sampler.choice(names) for names in ways.values())]))
        jobs = [list(islice(names, size)) for size in _SIZES]
        if not any(len({_reads(name) for name in job}) < len(job) for job in jobs):
            return jobs


def _reads(name: str) -> str:
    """What no two faults of one job have in common: their part. Of the two that read numbers one hides the other."""
    return "logging" if FAULTS[name].shows[0] == "reads" else FAULTS[name].part


def _case(criteria: tuple[str, ...], planted: list[str]) -> Case:
    changes = max(len(planted), 1)
    return Case(criteria, {"planted": planted, "changes": changes, "runs": changes + 1 + MOST_RUNS_TO_SPARE})


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    returned = evidence["returned"]
    if problem := _form_problem(returned):
        yield from (Failure(criteria, problem) for criteria in case.criteria)
        return
    if "healthy" in case.criteria:
        if returned:
            yield Failure("healthy", "A job that meets every target was changed: what is not broken needs no remedy.")
        return
    job, made = Job(case.inputs["planted"]), [change for change, *_ in returned]
    last = _replayed(job, made)
    if above := last.above(targets()):
        yield Failure("targets", _still(above))
    if not same_losses(last.losses, healthy().losses):
        yield Failure("losses", _OTHER_WORK)
    if problem := _changes_problem(case, job, made):
        yield Failure("changes", problem)
    if problem := _unjustified(job, returned, evidence["log"]):
        yield Failure("justified", problem)


def _form_problem(returned: Any) -> str | None:
    if not isinstance(returned, list):
        return f"The function returned {type_name(returned)}; expected a list."
    if not all(isinstance(entry, list) and len(entry) == 4 for entry in returned):
        return "Each entry of the list is due as a tuple of four: change, figure, before and after."
    for change, figure, before, after in returned:
        if change not in OPTIONS or figure not in FIGURES:
            return "An entry names a change that is not offered, or a figure that no report has."
        if not all(type(value) in (int, float) for value in (before, after)):
            return "The figures before and after a change are numbers."
    return None


def _replayed(job: Job, made: list[str]) -> Report:
    return healthy() if job.code(made) == Job().code() else Remembered(job).run(made)


def _still(above: dict[str, float]) -> str:
    serving = {
        name
        for name in above
        if name.startswith("served_") or name in ("first_token_us", "between_tokens_us", "concatenated_bytes")
    }
    memory = {name for name in above if name.endswith("_bytes")} - serving
    kinds = [
        name
        for name, found in (
            ("of serving", serving),
            ("of memory", memory),
            ("of training", set(above) - serving - memory),
        )
        if found
    ]
    return f"With the changes made, figures {' and '.join(kinds)} are still more than their targets allow."


_OTHER_WORK = (
    "The job with the changes made learns something else: its losses are not those of the experiment. What makes a step faster by doing "
    "other work, or leaves what disturbs the training, is no repair."
)


def _changes_problem(case: Case, job: Job, made: list[str]) -> str | None:
    if len(made) > case.inputs["changes"]:
        return (
            "More changes are made than the job allows: what is mended without a reason costs the change that has one."
        )
    if any(job.code(made[:number]) == job.code(made[: number + 1]) for number in range(len(made))):
        return "One of the changes changes nothing: its part was right, or it had been made."
    return None


def _unjustified(job: Job, returned: list, log: Any) -> str | None:
    made = [change for change, *_ in returned]
    for number, (_, figure, before, after) in enumerate(returned):
        was, is_now = (_measured(job, made[:count], log) for count in (number, number + 1))
        if was is None or is_now is None:
            return "A change was not measured by itself: its figure is that of a run without it, and of one with it, behind the changes listed before."
        if not (_is(before, was[figure]) and _is(after, is_now[figure])):
            return "The figures of a change are not what the job's reports say just before it is made and just after."
        if after * FALLS > before:
            return "A change is made for a figure that it does not lower by more than 2 %: that figure is no reason for it."
    if made and _measured(job, made[:-1], log) != _replayed(job, made[:-1]).figures:
        return "The record of the runs is not what this job does."
    return None


def _measured(job: Job, made: list[str], log: Any) -> dict | None:
    """The figures of a run with just these changes, in whatever order."""
    code = job.code(made)
    runs = (run for run in log if all(change in OPTIONS for change in run["changes"]))
    return next((run["figures"] for run in runs if job.code(run["changes"]) == code), None)


def _is(told: float, right: float) -> bool:
    return abs(told - right) <= _NEAR * max(abs(right), 1)


exercise = Exercise(
    criteria=(
        Criterion("targets", 4, "with the changes made every figure meets its target"),
        Criterion("losses", 3, "the job learns what it was asked to learn", ("targets",)),
        Criterion("changes", 2, "no more changes are made than are allowed, and none without effect", ("targets",)),
        Criterion("justified", 4, "each change lowers a figure that was measured before it and after it", ("targets",)),
        Criterion("healthy", 2, "a job that meets its targets is left alone", ("targets",)),
    ),
    cases=_cases,
    judge=_judge,
)
