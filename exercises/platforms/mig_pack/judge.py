"""E20.4 mig_pack: cases and judge. How many jobs can have a place is found by trying which sets a GPU holds."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.platforms.mig_pack import cases as drawn
from gpulab.platforms import GEOMETRY, Placed, most_placed

Place = list[Any]


def _cases(sampler: Sampler) -> Iterator[Questions]:
    for criteria, questions in {"legal": drawn.places, "enough": drawn.enough, "most": drawn.packings}.items():
        yield ask(criteria, sampler.permutation(list(questions(sampler))))
    yield ask("errors", sampler.permutation(list(drawn.refused(sampler))), raises="ValueError")


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    jobs, gpus = question["jobs"], question["gpus"]
    if not isinstance(value, list):
        return f"The function returned {type_name(value)}; expected a list."
    if len(value) != len(jobs) or not all(place is None or _is_place(place, gpus) for place in value):
        return "The list has an entry for each job: None, or a GPU's number, a profile of that GPU and a memory slice."
    placed = [(job, place) for job, place in zip(jobs, value, strict=True) if place is not None]
    most = most_placed([tuple(job) for job in jobs], gpus)
    if criteria != "enough" and (problem := _place_problem([place for _, place in placed], gpus)):
        return problem
    if criteria != "legal" and (problem := _size_problem(placed, gpus)):
        return problem
    if criteria == "most":
        return (
            None
            if len(placed) == most
            else "More jobs could have a place at once: what is placed first, or where, leaves less room."
        )
    return None if placed or not most else "Nobody has a place, though there is one."


def _is_place(place: Any, gpus: list[str]) -> bool:
    if not isinstance(place, list) or len(place) != 3 or type(place[0]) is not int or type(place[2]) is not int:
        return False
    gpu, name, start = place
    return 0 <= gpu < len(gpus) and isinstance(name, str) and name in GEOMETRY[gpus[gpu]] and start >= 0


def _profile(place: Place, gpus: list[str]) -> Any:
    return GEOMETRY[gpus[place[0]]][place[1]]


def _place_problem(places: list[Place], gpus: list[str]) -> str | None:
    taken = [0] * len(gpus)
    for place in places:
        profile, (gpu, _, start) = _profile(place, gpus), place
        if start not in profile.starts:
            return "An instance begins where its profile may not: there are eight slices of memory, and each profile has few places."
        mask = Placed(profile, start).mask
        if taken[gpu] & mask:
            return (
                "Two instances have a memory slice in common: three and four sevenths take four of eight slices each."
            )
        taken[gpu] |= mask
    return None


def _size_problem(placed: list[tuple[list, Place]], gpus: list[str]) -> str | None:
    for (gb, compute), place in placed:
        profile = _profile(place, gpus)
        if profile.gb < gb:
            return "An instance has less memory than its job needs."
        if profile.compute < compute:
            return "An instance has fewer compute slices than its job needs: memory alone is not enough."
    return None


exercise = answers(
    criteria=(
        Criterion("legal", 3, "instances lie where their profiles may, and none on another"),
        Criterion("enough", 2, "each job has memory and compute enough"),
        Criterion("most", 3, "as many jobs as possible have a place", ("legal", "enough")),
        Criterion("errors", 2, "GPUs without MIG and jobs that need nothing are refused with ValueError", ("legal",)),
    ),
    cases=_cases,
    arguments=lambda question: ([tuple(job) for job in question["jobs"]], question["gpus"]),
    wrong=_wrong,
    kept="The function changed jobs or gpus.",
    libraries=("numpy",),
)
