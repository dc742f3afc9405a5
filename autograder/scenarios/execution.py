"""Chapter "The CUDA execution model": what the learner's kernels and predictions did.

Kernels run on a virtual card, where an interpreter counts what each warp does.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch

from autograder.scenario_runner import Learner
from autograder.scenarios.card import idle_card
from autograder.scenarios.kernels_ran import kernels_ran, work_of
from autograder.scenarios.library_calls import library_calls
from autograder.scenarios.observed import observe
from gpulab.kernels import cuda


def add_vectors(learner: Learner, case: dict) -> dict:
    """Have two vectors added on the card, watched."""
    with idle_card():
        a, b = case["a"].cuda(), case["b"].cuda()
        return _filled(lambda out: learner.add_vectors(a, b, out, case["threads"]), a, b)


def shade(learner: Learner, case: dict) -> dict:
    """Have a picture shaded on the card, watched."""
    with idle_card():
        image, gain = case["image"].cuda(), case["gain"].cuda()
        return _filled(lambda out: learner.shade(image, gain, out, tuple(case["block"])), image, gain)


def _filled(call: Callable, *inputs: torch.Tensor) -> dict:
    """What ``call``, which kernels do with ``inputs``, did to a tensor of NaN like the first of them."""
    out = torch.full_like(inputs[0], torch.nan)
    torch.cuda.synchronize()
    with kernels_ran(*inputs, out) as ran, observe() as seen:
        returned = call(out)
    return work_of(out, ran, seen) | {"out": out.cpu(), "returned": returned}


def divergence_cost(learner: Learner, case: dict) -> dict:
    """Ask for the instructions of a launch; the lists may have been asked about before, when they held something else."""
    kinds, costs = list(case["kinds"]), list(case["costs"])
    if case.get("refilled"):
        kinds[:], costs[:] = [0] * len(kinds), [1] * len(costs)
        learner.divergence_cost(kinds, costs, case["threads"])
        kinds[:], costs[:] = case["kinds"], case["costs"]
    with library_calls("torch", "numpy", "numba", "gpulab") as called:
        result = learner.divergence_cost(kinds, costs, case["threads"])
    return {"result": result, "called": sorted(called), "after": [kinds, costs]}


@cuda.jit
def gather(kinds, turns, order, x, out):
    """Thread i works on element order[i], in the branch of its kind."""
    i = cuda.grid(1)
    if i < order.size:
        j = order[i]
        kind = kinds[j]
        v = x[j]
        if kind == 0:
            for _ in range(turns[0]):
                v = v + 1.0
        elif kind == 1:
            for _ in range(turns[1]):
                v = v + 2.0
        elif kind == 2:
            for _ in range(turns[2]):
                v = v + 3.0
        else:
            for _ in range(turns[3]):
                v = v + 4.0
        out[j] = v


def regroup(learner: Learner, case: dict) -> dict:
    """Run a kernel with branches over the learner's order, if it is one; the list may have been ordered before, with other kinds in it."""
    kinds = list(case["kinds"])
    if case.get("refilled"):
        kinds[:] = [0] * len(kinds)
        learner.regroup(kinds)
        kinds[:] = case["kinds"]
    order = learner.regroup(kinds)
    evidence = {"order": order, "kinds_after": kinds}
    if not _is_order(order, len(case["kinds"])):
        return evidence
    with idle_card():
        arguments = [torch.tensor(values).cuda() for values in (case["kinds"], case["turns"], order)]
        x = torch.arange(len(order), dtype=torch.float32).cuda()
        launch = gather[-(-len(order) // case["threads"]), case["threads"]]
        evidence |= _filled(lambda out: launch(*arguments, x, out), x, *arguments)
    return evidence


def _is_order(order: object, n: int) -> bool:
    if type(order) is not list or any(type(j) is not int for j in order):
        return False
    return sorted(order) == list(range(n))


def occupancy(learner: Learner, case: dict) -> dict:
    """Ask for the blocks that a multiprocessor holds; it may have been asked about before, when it held fewer."""
    sm = SimpleNamespace(**case["sm"])
    if case.get("refilled"):
        sm.max_blocks = 1
        learner.occupancy(*case["launch"], sm)
        sm.max_blocks = case["sm"]["max_blocks"]
    with library_calls("torch", "numpy", "numba", "gpulab") as called:
        result = learner.occupancy(*case["launch"], sm)
    return {"result": result, "called": sorted(called)}
