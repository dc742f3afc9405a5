"""Chapter "Tensors are views": what the learner's functions did.

What was handed to a function is shown to the judge by a tensor of the scenario's own over the
same storage: the learner's code can point its own argument elsewhere.
"""

import gc
import itertools
import weakref

import torch

from autograder.scenario_runner import Learner
from autograder.scenarios.library_calls import library_calls
from autograder.scenarios.observed import observe, record_inputs, storage_address
from autograder.scenarios.outcome import outcome
from autograder.scenarios.refilled import zeroed_first


def predict_view(learner: Learner, case: dict) -> dict:
    """Ask every question, watched: a prediction runs no operation and calls no array library."""
    questions = [[tuple(question[key]) for key in ("size", "stride", "new_size")] for question in case["questions"]]
    with observe() as seen, library_calls("torch", "numpy") as called:
        answers = [outcome(lambda: learner.predict_view(*question)) for question in questions]
    return {"answers": answers, "called": sorted(called), "seen": seen.to_dict()}


def patchify(learner: Learner, case: dict) -> dict:
    """Cut the images, watched; ``turned_first``: when the same memory has been cut before, read the other way."""
    images, patch = case["images"], case["patch"]
    if case["turned_first"]:
        learner.patchify(images.transpose(2, 3), patch)
    given = images.detach()
    record_inputs(given)
    with observe() as seen:
        patches = learner.patchify(images, patch)
    return {
        "images": images,
        "given": given,
        "patches": patches,
        "result_addresses": [storage_address(patches)],
        "seen": seen.to_dict(),
    }


def compact(learner: Learner, case: dict) -> dict:
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


def to_tokens(learner: Learner, case: dict) -> dict:
    """Make the tokens, watched."""
    frames, patch, dtype = case["frames"], case["patch"], getattr(torch, case["dtype"])
    if case["refilled"]:
        zeroed_first(lambda: learner.to_tokens(frames, patch, dtype), frames)
    given = frames.detach()
    record_inputs(given)
    with observe() as seen:
        tokens = learner.to_tokens(frames, patch, dtype)
    made = isinstance(tokens, torch.Tensor) and seen.made_of(tokens, given)
    where = {"result_addresses": [storage_address(tokens)], "made_of_frames": made}
    return where | {"frames": frames, "given": given, "tokens": tokens, "seen": seen.to_dict()}
