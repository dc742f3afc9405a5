"""E17.3 save_state, load_state: cases and judge."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.collective_broker import Traffic
from autograder.judge.expect import error_problem, raised_problem
from autograder.judge.ranks import stopped

_NAME = "run.pt"
_WORDS = 4096
"""Bytes that a rank may receive which does not write: numbers and words, and no state."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    """One, two and four ranks; kills before every action on files and at many bytes; files cut off at many places."""
    seed = lambda: sampler.integer(1, 10**6)
    for world in sampler.shuffled(1, 2, 4):
        each = tuple({"own": seed(), "before": 3} for _ in range(world))
        yield Case(
            ("continues",), {"world": world, "play": "continues", "seed": seed()}, ranks=world, per_rank_inputs=each
        )
    yield Case(("continues",), {"world": 0, "play": "continues", "seed": seed()})
    for play, criteria, world in (("one_rank", "one rank", 4), ("told", "told", 3)):
        each = tuple({"own": seed()} for _ in range(world))
        yield Case((criteria,), {"world": world, "play": play, "seed": seed()}, ranks=world, per_rank_inputs=each)
    shares = [0.0, 0.999, *(sampler.integer(1, 990) / 1000 for _ in range(6))]
    yield Case(("survives",), {"world": 0, "play": "survives", "seed": seed(), "shares": sampler.permutation(shares)})
    yield Case(("on the disk",), {"world": 0, "play": "disk", "seed": seed()})
    yield Case(("plain",), {"world": 0, "play": "plain", "seed": seed()})
    each = tuple({"own": seed()} for _ in range(2))
    shares = [0.0, sampler.integer(100, 900) / 1000, 0.99]
    yield Case(
        ("full",),
        {"world": 2, "play": "full", "seed": seed(), "shares": sampler.permutation(shares)},
        ranks=2,
        per_rank_inputs=each,
    )
    shares = [0.0, 0.001, sampler.integer(100, 900) / 1000, 0.999]
    name = sampler.choice(["model", "scaler", "order"])
    yield Case(
        ("refused",),
        {"world": 0, "play": "refused", "seed": seed(), "shares": sampler.permutation(shares), "name": name},
    )
    each = tuple({"own": seed()} for _ in range(2))
    yield Case(("refused",), {"world": 2, "play": "other_world", "seed": seed()}, ranks=2, per_rank_inputs=each)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,), play = case.criteria, case.inputs["play"]
    if case.ranks:
        problem = stopped(evidence) or _raised(evidence)
        problem = problem or next(filter(None, (_PROBLEMS[play](result) for result in evidence["results"])), None)
        if not problem and play == "one_rank":
            problem = _one_rank(evidence["traffic"])
        if not problem and play == "other_world":
            problem = _apart_problem(evidence["alone"]) or _refusal_problem(
                evidence["alone"]["value"], "It is of another number of ranks."
            )
    else:
        played = evidence["played"]
        problem = _apart_problem(played) or _PROBLEMS[play](played["value"])
    if problem:
        yield Failure(criteria, problem)


def _raised(evidence: dict) -> str | None:
    return raised_problem(evidence["raised"]) if "raised" in evidence else None


def _apart_problem(played: dict) -> str | None:
    if "raised" in played:
        return raised_problem(played["raised"])
    return None if "value" in played else "The process that saved or loaded did not come to its end."


def _continues(result: dict) -> str | None:
    if result["listed"] != [_NAME]:
        return "After a save the folder holds another file than the checkpoint, or not that one."
    if not _same(result["untouched"], result["at"]):
        return "Saving has changed the run: an object, or a generator from which a number was drawn."
    if not _same(result["loaded"], result["at"]):
        return (
            "After a load a rank does not have what it had when it was saved: its own objects' states, all of them, and the states of "
            "Python's, NumPy's and torch's generators."
        )
    return (
        None
        if _same(result["found"], result["due"])
        else "After a load the run does not go on as it did behind the save, to the last bit."
    )


def _same(one: Any, other: Any) -> bool:
    return (
        isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and one.shape == other.shape
        and torch.equal(one, other)
    )


def _survives(value: dict) -> str | None:
    if not any(kill["killed"] for kill in value["kills"]):
        return "No save touched a file: none could be killed."
    for kill in value["kills"]:
        if kill["error"] is not None:
            return (
                "A save that was killed has left no checkpoint that can be loaded: the old one is to stay until a whole new one takes its "
                "place by one renaming."
            )
        if not (_same(kill["loaded"], value["old"]) or _same(kill["loaded"], value["new"])):
            return "After a save that was killed neither the old state nor the new one is loaded."
    return (
        None
        if _same(value["at last"], value["new"])
        else "After saves that were killed the next save does not give the new state."
    )


def _on_the_disk(value: dict) -> str | None:
    if len(value["renamed"]) != 1 or value["renamed"][0][0] != value["size"]:
        return "The checkpoint did not come to its path by one renaming of a whole file."
    _, beside, synced = value["renamed"][0]
    if not beside:
        return "The file was written in another folder: between file systems a renaming is a copy."
    if not synced:
        return "The file was renamed before all its bytes were on the disk: what Python still holds is written first, and then os.fsync."
    if not value["folder"]:
        return (
            "Behind the renaming the folder was not synced: after a power cut the path may mean the old file, or none."
        )
    return None


def _one_rank(traffic: Traffic) -> str | None:
    """Of a save alone: who was handed more than a few words."""
    received = Counter[int]()
    for entry in traffic.entries:
        takers = {"send": entry.ranks[1:], "gather": (), "reduce": ()}.get(entry.operation, entry.ranks)
        received.update(dict.fromkeys(takers, entry.bytes))
    if sum(nbytes >= _WORDS for nbytes in received.values()) > 1:
        return "Ranks that do not write received the others' states: one rank needs them."
    return None


def _told(result: dict) -> str | None:
    if not all(answer.get("error") for answer in result["answers"]):
        return "Something went wrong in one rank of a save, and another rank came back as if it had been saved."
    if result["listed"] != [_NAME] or not _same(result["loaded"], result["at"]):
        return "After a save in which something went wrong in one rank, the old checkpoint is not what it was, or another file is left."
    return None


def _plain(value: dict) -> str | None:
    if "error" in value["read"]:
        return "torch.load with weights_only=True does not read the file: NumPy's arrays, for example, are no weights."
    if value["ran"]:
        return "Code of a file ran when it was loaded: a pickle can call anything."
    return next(
        filter(None, (_refusal_problem(answer, "A pickle in it would run code.") for answer in value["answers"])), None
    )


def _full(result: dict) -> str | None:
    for answer in result["answers"]:
        if problem := error_problem(answer, "OSError"):
            return f"{problem} The save failed, and every rank has to know."
        if answer["listed"] != [_NAME]:
            return "A save that failed has left a file behind, or taken the old one away."
    return (
        None if _same(result["loaded"], result["at"]) else "After a save that failed the old checkpoint is not loaded."
    )


def _refused(value: dict) -> str | None:
    if problem := error_problem(value["missing"], "FileNotFoundError"):
        return f"{problem} There is no file."
    if problem := next(
        filter(None, (_refusal_problem(answer, "It is no checkpoint of these names.") for answer in value["answers"])),
        None,
    ):
        return problem
    if problem := next(
        filter(
            None, (_refusal_problem(answer, "An entry of the file was malformed.") for answer in value["malformed"])
        ),
        None,
    ):
        return problem
    if problem := error_problem(value["passed on"], "KeyError"):
        return f"{problem} An object's load_state_dict raised it."
    return None if value["passed on"]["kept"] is True else "A load in which an object raised has changed a generator."


def _refusal_problem(answer: dict, why: str) -> str | None:
    if problem := error_problem(answer, "ValueError"):
        return f"{problem} {why}"
    return (
        None
        if answer["kept"] is True
        else "A load that was refused has changed an object or a generator: look at all before the first changes."
    )


_PROBLEMS = {
    "continues": _continues,
    "survives": _survives,
    "disk": _on_the_disk,
    "plain": _plain,
    "full": _full,
    "refused": _refused,
    "other_world": lambda result: None,
    "one_rank": lambda result: None,
    "told": _told,
}

exercise = Exercise(
    criteria=(
        Criterion(
            "continues", 3, "one, two and four ranks go on from a load to the last bit, and a save disturbs nothing"
        ),
        Criterion("one rank", 1, "what the ranks save comes to one of them alone", ("continues",)),
        Criterion("survives", 2, "a save that is killed at any moment leaves a whole checkpoint", ("continues",)),
        Criterion("on the disk", 1, "all bytes are on the disk before one renaming puts them in place", ("continues",)),
        Criterion("plain", 1, "the file holds plain data, and a file that would run code is refused", ("continues",)),
        Criterion(
            "full", 1, "a save that fails says so in every rank and leaves the old checkpoint alone", ("continues",)
        ),
        Criterion(
            "told", 1, "what goes wrong in one rank is raised in every rank, and nobody waits for ever", ("continues",)
        ),
        Criterion(
            "refused", 1, "what is no checkpoint of this run is refused, and nothing has changed then", ("continues",)
        ),
    ),
    cases=_cases,
    judge=_judge,
)
