"""E1.3 compact: what runs beside the learner's function."""

import gc
import itertools
import weakref

import torch

from autograder.runner.observed import observe, record_inputs, storage_address
from autograder.runner.scenario_runner import Learner
from exercises.views.compact.run_refilled import zeroed_first


def run(learner: Learner, case: dict) -> dict:
    """Compact the batch, watched; or let the batch go and see which of its storages are freed."""
    once = [_on_a_graph(tensor) if hangs else tensor for tensor, hangs in zip(case.pop("once"), case["on_a_graph"])]
    batch = [once[place] for place in case["places"]]
    once.clear()
    if case["let_go"]:
        return _compact_and_let_go(learner, batch)
    if case["refilled"]:
        zeroed_first(lambda: learner.compact(list(batch)), *batch)
    given, handed = [tensor.detach() for tensor in batch], list(batch)
    record_inputs(*given)
    with observe() as seen:
        results = learner.compact(handed)
    after = {"batch": batch, "given": given, "hanging": [tensor.grad_fn is not None for tensor in batch]}
    same = {"same": _same(results, batch), "list_kept": _same(handed, batch)}
    result_addresses = [storage_address(result) for result in _listed(results)]
    return after | same | {"results": results, "result_addresses": result_addresses, "seen": seen.to_dict()}


def _compact_and_let_go(learner: Learner, batch: list[torch.Tensor]) -> dict:
    storages = [weakref.ref(tensor.untyped_storage()) for tensor in batch]
    gc.freeze()  # the collection below then looks at nothing but what is new
    try:
        results = learner.compact(batch[:])
        batch.clear()
        gc.collect()
    finally:
        gc.unfreeze()
    leaves = [isinstance(result, torch.Tensor) and result.is_leaf for result in _listed(results)]
    return {"results": results, "leaves": leaves, "freed": [storage() is None for storage in storages]}


def _same(some: object, batch: list[torch.Tensor]) -> list[bool]:
    """Place by place, whether ``some`` holds the very tensors of the batch; as long as the longer one."""
    return [a is b for a, b in itertools.zip_longest(_listed(some), batch)]


def _listed(some: object) -> list:
    return list(some) if isinstance(some, (list, tuple)) else []


def _on_a_graph(tensor: torch.Tensor) -> torch.Tensor:
    """The same bytes, reached through a view that autograd has recorded."""
    return tensor.view_as(tensor)
