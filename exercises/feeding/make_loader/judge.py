"""E11.4 make_loader: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem

_SOURCES = ("Python's random", "NumPy's global generator", "PyTorch's global generator", "the dataset's own generator")
_INDEX, _PROCESS, _DRAWN = 0, 1, 2


# Cases


def _cases(sampler: Sampler) -> Iterator[Case]:
    for make in sampler.permutation((_workers, _ranks, _repeated, _none, _pinned, _prefetch, _errors)):
        yield from make(sampler)


def _config(sampler: Sampler, size: int, **changes: Any) -> dict:
    right = {"batch": 2, "workers": 2, "prefetch": None, "seed": sampler.integer(0, 999), "rank": 0}
    return right | {"sampler": sampler.permutation(range(size))} | changes


def _loader(sampler: Sampler, config: dict, epochs: int = 1, own: bool = False, accelerator: str = "") -> dict:
    return {
        "config": config,
        "size": len(config["sampler"]),
        "epochs": epochs,
        "own": own,
        "accelerator": accelerator,
        "noise": sampler.integer(0, 1 << 30),
    }


def _workers(sampler: Sampler) -> Iterator[Case]:
    """One worker, two and three, batches that come out even and not, a dataset with a generator of its own and one without."""
    loaders = []
    for workers, batch, size, own in sampler.shuffled((2, 3, 14, True), (3, 1, 6, False), (1, 4, 8, True)):
        config = _config(
            sampler,
            size,
            workers=workers,
            batch=batch,
            prefetch=sampler.choice((None, 1, 3)),
            rank=sampler.integer(0, 3),
        )
        loaders.append(_loader(sampler, config, 3 if workers == 2 else 2, own))
    yield Case(("batches", "persistent", "distinct"), {"loaders": loaders})


def _ranks(sampler: Sampler) -> Iterator[Case]:
    """Pairs of seed and rank, also of equal sums and of large ranks, from one state of the global generators: every rank has set
    the same seed. Two neighbours have two workers each, the others one.
    """
    seed, noise = sampler.integer(0, 99), sampler.integer(0, 999)
    pairs = sampler.shuffled(
        (seed, 0, 2), (seed, 1, 2), (seed + 1, 0, 1), (seed + 2, 0, 1), (seed, 2, 1), *((seed, far, 1) for far in _FAR)
    )
    loaders = [
        _loader(sampler, _config(sampler, 4, seed=s, rank=rank, workers=w), 1, True) | {"noise": noise}
        for s, rank, w in pairs
    ]
    yield Case(("ranks",), {"loaders": loaders})


_FAR = (10, 100, 1000, 1024)
"""Ranks at which a seed that was multiplied, or shifted, to make room for them is the next one."""


def _repeated(sampler: Sampler) -> Iterator[Case]:
    """One configuration twice, of seed 0, after other numbers were drawn from the caller's generators."""
    config = _config(sampler, 8, seed=0, rank=sampler.integer(0, 3))
    yield Case(("repeatable",), {"loaders": [_loader(sampler, config, 2, True) for _ in range(2)]})


def _none(sampler: Sampler) -> Iterator[Case]:
    configs = [
        _config(sampler, 7, workers=0, batch=batch, prefetch=prefetch)
        for batch, prefetch in sampler.shuffled((3, None), (2, 4), (7, 1))
    ]
    yield Case(
        ("no_workers",),
        {
            "loaders": [
                _loader(sampler, config, 2, own) for config, own in zip(configs, sampler.shuffled(True, False, True))
            ]
        },
    )


def _pinned(sampler: Sampler) -> Iterator[Case]:
    """With none, with a CUDA device and with another kind."""
    loaders = [
        _loader(sampler, _config(sampler, 4, workers=w), 0, False, there)
        for w in sampler.shuffled(0, 2)
        for there in sampler.shuffled("cuda", "xpu", "")
    ]
    yield Case(("pinned",), {"loaders": loaders})


def _prefetch(sampler: Sampler) -> Iterator[Case]:
    asked = sampler.shuffled((2, None), (2, 1), (1, sampler.integer(3, 9)), (4, 2))
    yield Case(
        ("prefetch",), {"loaders": [_loader(sampler, _config(sampler, 4, workers=w, prefetch=p), 0) for w, p in asked]}
    )


def _errors(sampler: Sampler) -> Iterator[Case]:
    right = _config(sampler, 4)
    wrong: list[dict] = [
        {"batch": 0},
        {"batch": -1},
        {"workers": -1},
        {"seed": -1},
        {"rank": -1},
        {"prefetch": 0},
        {"prefetch": -2},
    ]
    wrong += [{"workers": 0, "prefetch": 0}, {"num_workers": 2}, {"shuffle": True}]
    wrong += [{name: value} for name in ("batch", "workers", "seed", "rank") for value in (2.0, "2", None, True)]
    wrong += [{"prefetch": value} for value in (2.0, "2", True)]
    without = [{name: value for name, value in right.items() if name != missing} for missing in right]
    yield Case(
        ("errors",),
        {"refused": sampler.permutation([right | change for change in wrong] + without)},
        raises="ValueError",
    )


# Judge


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.raises:
        for answer in evidence["answers"]:
            if problem := error_problem(answer, case.raises):
                yield Failure(
                    "errors",
                    f"{problem} A configuration that is misspelt, or of another type, is a job that runs as nobody meant it.",
                )
                return
        return
    if "stopped" in evidence or "raised" in evidence:
        yield from (
            Failure(criteria, str(evidence.get("stopped") or raised_problem(evidence["raised"])))
            for criteria in case.criteria
        )
        return
    found = evidence["value"]["loaders"]
    problem = count_problem(found, len(case.inputs["loaders"]))
    if problem or any(one["kind"] != "DataLoader" for one in found):
        yield from (
            Failure(criteria, problem or "The function did not return a torch.utils.data.DataLoader.")
            for criteria in case.criteria
        )
        return
    for criteria in case.criteria:
        if problem := _JUDGES[criteria](case.inputs["loaders"], found) or _made_up(found):
            yield Failure(criteria, problem)


def _made_up(found: list[dict]) -> str | None:
    """A sample that the dataset was not seen to make."""
    for one in found:
        told = {tuple(row) for row in one["told"]}
        if any(tuple(row) not in told for epoch in one["epochs"] for batch in epoch for row in batch):
            return "A batch holds samples that the dataset did not make."
    return None


def _order(config: dict, epoch: int) -> list[int]:
    """What the sampler gives when it is asked for the ``epoch``-th time, counted from 0."""
    order = config["sampler"]
    return [*order[epoch + 1 :], *order[: epoch + 1]]


def _batches(asked: list[dict], found: list[dict]) -> str | None:
    for loader, one in zip(asked, found, strict=True):
        config = loader["config"]
        for number, epoch in enumerate(one["epochs"]):
            order, size = _order(config, number), config["batch"]
            expected = [order[at : at + size] for at in range(0, len(order), size)]
            if [[row[_INDEX] for row in batch] for batch in epoch] != expected:
                return (
                    "The batches are not those of the sampler, which is asked anew in each epoch: its order, as many samples as the "
                    "configuration says, and at the end those that are left."
                )
    return None


def _persistent(asked: list[dict], found: list[dict]) -> str | None:
    for loader, one in zip(asked, found, strict=True):
        processes = [{row[_PROCESS] for batch in epoch for row in batch} for epoch in one["epochs"]]
        if one["me"] in set().union(*processes) or len(processes[0]) != loader["config"]["workers"]:
            return "The samples are not made by as many worker processes as the configuration says."
        if any(not made <= {*alive} for made, alive in zip(processes, one["alive"], strict=True)):
            return "The processes that made the samples were gone when the epoch was over: they are started, and import everything, once an epoch."
        if any(later != processes[0] for later in processes):
            return "The second epoch has other worker processes than the first: they are started, and import everything, once an epoch."
    return None


def _distinct(asked: list[dict], found: list[dict]) -> str | None:
    for loader, one in zip(asked, found, strict=True):
        if not loader["own"] and any(row[-1] >= 0 for epoch in one["epochs"] for batch in epoch for row in batch):
            return "A dataset that has no generator of its own was given one."
        if source := _drawn_twice([one], loader["own"]):
            return f"Two workers or two epochs draw the same numbers from {source}: their augmentations are copies of each other."
    return None


def _drawn_twice(found: list[dict], own: bool) -> str | None:
    """A source of which two samples were made with the same number."""
    rows = [row for one in found for epoch in one["epochs"] for batch in epoch for row in batch]
    for place, source in enumerate(_SOURCES[: 4 if own else 3], _DRAWN):
        drawn = [row[place] for row in rows]
        if len(set(drawn)) < len(drawn):
            return source
    return None


def _ranks_apart(asked: list[dict], found: list[dict]) -> str | None:
    source = _drawn_twice(found, True)
    return source and (
        f"Two ranks, or two seeds, draw the same numbers from {source}: what seeds a worker depends on all of seed, rank and worker, "
        "and not on a sum of them."
    )


def _repeatable(asked: list[dict], found: list[dict]) -> str | None:
    first, second = (
        [[row[_INDEX:_PROCESS] + row[_DRAWN:] for row in batch] for epoch in one["epochs"] for batch in epoch]
        for one in found
    )
    if first != second:
        return "One configuration gives other numbers when the run is repeated: the state of the caller's generators has a part in them."
    if any(len({tuple(states) for states in one["states"]}) > 1 for one in found):
        return "Making the loader or going through it changes the caller's generators."
    if not all(one["kept"] for one in found):
        return "The caller's configuration was changed."
    if any(one["own"][0] != one["own"][1] for one in found):
        return "The generator of the caller's dataset was changed: only the workers' copies get another."
    return None


def _no_workers(asked: list[dict], found: list[dict]) -> str | None:
    if problem := _batches(asked, found):
        return problem
    for one in found:
        if (
            one["states"][0] != one["states"][1]
            or [[row for batch in epoch for row in batch] for epoch in one["epochs"]] != one["plain"]
        ):
            return "Without workers the samples are not made in the caller's process, with the caller's own generators, as they are."
    return None


def _pins(asked: list[dict], found: list[dict]) -> str | None:
    for loader, one in zip(asked, found, strict=True):
        if one["said"]["pin_memory"] is not bool(loader["accelerator"]):
            return "Memory is pinned where there is no accelerator, or not pinned where there is one, of whatever kind."
    return None


def _prefetches(asked: list[dict], found: list[dict]) -> str | None:
    for loader, one in zip(asked, found, strict=True):
        if one["said"]["prefetch_factor"] != (loader["config"]["prefetch"] or 2):
            return (
                "The number of batches asked ahead is not the configuration's, or not PyTorch's own where it says None."
            )
    return None


_JUDGES = {
    "batches": _batches,
    "persistent": _persistent,
    "distinct": _distinct,
    "ranks": _ranks_apart,
    "repeatable": _repeatable,
    "no_workers": _no_workers,
    "pinned": _pins,
    "prefetch": _prefetches,
}

exercise = Exercise(
    criteria=(
        Criterion("batches", 1, "the batches are those of the sampler"),
        Criterion("no_workers", 1, "a configuration without workers is valid, and draws from the caller's generators"),
        Criterion("persistent", 2, "the worker processes stay from epoch to epoch", ("batches",)),
        Criterion("distinct", 2, "no two workers and no two epochs draw the same numbers", ("batches",)),
        Criterion("ranks", 1, "nor do two ranks or two seeds", ("distinct",)),
        Criterion(
            "repeatable",
            1,
            "a run can be repeated, and the caller's generators and configuration are left alone",
            ("distinct",),
        ),
        Criterion("pinned", 1, "memory is pinned where there is an accelerator, and nowhere else", ("batches",)),
        Criterion("prefetch", 1, "prefetch is the configuration's, or PyTorch's own", ("batches",)),
        Criterion("errors", 1, "what is no configuration is refused with ValueError", ("batches",)),
    ),
    cases=_cases,
    judge=_judge,
)
