"""Many ranks in one case: ``in_ranks`` calls a scenario's function in each rank and gathers the evidence.

    def exchange(learner: Learner, case: dict) -> dict:
        def in_rank(rank: int, world: int) -> dict:
            x = case["xs"][rank]
            learner.exchange(rank, world, x)
            return {"x": x}

        return in_ranks(in_rank, case["world"])

The verdict's case is ``Case(criteria, {"xs": xs, "world": 4}, ranks=4)``, and its judge finds, beside what the ranks
returned, their traffic: the referee's collective broker carried and logged it. Inputs that no other rank may know are
``Case(criteria, {"world": 4}, ranks=4, per_rank_inputs=({"x": ...}, ...))``, and ``x = own_inputs()["x"]`` in the rank.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from autograder.protocol import wire
from autograder.runner.background_work import detector
from autograder.runner.scenario_runner import describe
from autograder.sandbox import domain, syscalls
from gpulab.collectives import run_ranks
from gpulab.collectives.rank import session

TIMEOUT_SECONDS = 5.0
"""Of real time. Ranks that wait for each other are found at once; this is for one that never ends."""


def in_ranks(
    fn: Callable[[int, int], Any], world: int, card: str = "off", backend: str = "gloo", folder: str | None = None
) -> dict[str, Any]:
    """Call ``fn(rank, world)`` in ``world`` processes, each with the default process group ``backend``.

    Ranks may write files in ``folder`` only, where one is given; all of them may read there.

    Returns ``results``, by rank, with None for a rank that did not return; ``problem``, None or the
    :class:`gpulab.collectives.Problem` that stopped the ranks. Where the function raised: ``raised``, the exception as
    :func:`autograder.runner.scenario_runner.describe` gives it, and ``raised_by``, the ranks in which it did.
    """
    foreign = _open_descriptors()
    with detector.expect("os.fork", world):
        run = run_ranks(
            _Apart(fn, foreign, folder),
            world,
            card=card,
            backend=backend,
            timeout_s=TIMEOUT_SECONDS,
            observe=False,
            check=False,
            show=_nowhere,
            plain=True,
        )
    said = [None if data is None else wire.decode(data) for data in run.results]
    for one in filter(None, said):
        detector.add(one["background"])
    raised = [rank for rank, one in enumerate(said) if one is not None and "raised" in one]
    problem = None if run.error is None else {"kind": run.error.problem.kind, "text": run.error.problem.text}
    evidence = {"results": [one and one.get("value") for one in said], "problem": problem}
    return evidence | ({"raised": said[raised[0]]["raised"], "raised_by": raised} if raised else {})


def own_inputs() -> dict[str, Any]:
    """In a rank: its own of the case's ``per_rank_inputs``; of a list the next, asked for after a barrier and before a call."""
    return wire.decode(bytes(session.current().given()))


def marker(rank: int, *measures: Callable[[], int]) -> Callable[[int], None]:
    """In a rank: a function that reduces an integer, and ``measures`` of that time, in a group of this rank alone, without waiting.

    The broker logs it among the rank's requests, and a judge finds it with ``marker_of`` and ``spans``.
    """
    alone, reduce = dist.new_group([rank], backend="gloo", use_local_synchronization=True), dist.reduce

    def mark(number: int) -> None:
        reduce(torch.tensor([number, *(measure() for measure in measures)]), rank, group=alone, async_op=True)

    return mark


class _Apart:
    """The function in one rank, which shares nothing with the others but the collective broker."""

    def __init__(self, fn: Callable[[int, int], Any], foreign: set[int], folder: str | None) -> None:
        self._fn, self._foreign, self._folder = fn, foreign, folder

    def __call__(self, rank: int, world: int) -> bytes:
        for descriptor in self._foreign - {session.current().fileno()}:
            _close(descriptor)
        domain.enter(self._folder)
        syscalls.refuse_to_a_rank()
        with detector.watch() as background:
            said = self._said(rank, world)
        return wire.encode(said | {"background": sorted(set(background))})

    def _said(self, rank: int, world: int) -> dict[str, Any]:
        try:
            return {"value": self._fn(rank, world)}
        except dist.DistBackendError:
            raise  # it ends because others did
        except BaseException as error:  # SystemExit too: a rank that leaves by it has not returned
            return {"raised": describe(error)}


def _open_descriptors() -> set[int]:
    """Descriptors that a rank would inherit beside the standard streams: the referee's socket, pipes of earlier cells."""
    folder = next((path for path in ("/proc/self/fd", "/dev/fd") if os.path.isdir(path)), None)
    return {int(name) for name in os.listdir(folder)} - {0, 1, 2} if folder else set()


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass


def _nowhere(rank: int, line: str) -> None:
    pass
