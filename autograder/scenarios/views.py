"""Chapter "Tensors are views": what the learner's functions did.

What was handed to a function is shown to the judge by a tensor of the scenario's own over the
same storage: the learner's code can point its own argument elsewhere.
"""

import gc
import weakref

import torch

from autograder.proctor import Learner
from autograder.scenarios.calls import library_calls
from autograder.scenarios.outcome import outcome
from gpulab import observe


def predict_view(learner: Learner, case: dict) -> dict:
    """Ask every question, watched: a prediction runs no operation and calls no array library."""
    questions = [[tuple(question[key]) for key in ("size", "stride", "new_size")] for question in case["questions"]]
    with observe() as seen, library_calls("torch", "numpy") as called:
        if case["refused"]:
            answers = [outcome(lambda: learner.predict_view(*question)) for question in questions]
        else:
            answers = [learner.predict_view(*question) for question in questions]
    return {"answers": answers, "called": sorted(called), "seen": seen.to_dict()}


def patchify(learner: Learner, case: dict) -> dict:
    """Cut the images, watched."""
    images, patch = case["images"], case["patch"]
    if case["refused"]:
        return outcome(lambda: learner.patchify(images, patch))
    given = images.detach()
    with observe() as seen:
        patches = learner.patchify(images, patch)
    return {"images": given, "patches": patches, "seen": seen.to_dict()}


def compact(learner: Learner, case: dict) -> dict:
    """Compact the batch, watched; or let the batch go and see whether its storages are freed."""
    batch = case.pop("batch")
    if case["on_a_graph"]:
        batch = [_on_a_graph(tensor) for tensor in batch]
    if case["let_go"]:
        return _compact_and_let_go(learner, batch)
    given = [tensor.detach() for tensor in batch]
    with observe() as seen:
        results = learner.compact(list(batch))
    return {"batch": batch, "given": given, "results": results, "seen": seen.to_dict()}


def _compact_and_let_go(learner: Learner, batch: list[torch.Tensor]) -> dict:
    storages = [weakref.ref(tensor.untyped_storage()) for tensor in batch]
    gc.freeze()  # the collection below then looks at nothing but what is new
    try:
        results = learner.compact(batch[:])
        batch.clear()
        gc.collect()
    finally:
        gc.unfreeze()
    return {"results": results, "freed": all(storage() is None for storage in storages)}


def _on_a_graph(tensor: torch.Tensor) -> torch.Tensor:
    """The same bytes, reached through a view that autograd has recorded."""
    return tensor.view_as(tensor) if tensor.requires_grad else tensor


def to_tokens(learner: Learner, case: dict) -> dict:
    """Make the tokens, watched."""
    frames = case["frames"]
    given = frames.detach()
    with observe() as seen:
        tokens = learner.to_tokens(frames, case["patch"], getattr(torch, case["dtype"]))
    origin = seen.origin(tokens) if isinstance(tokens, torch.Tensor) else "unseen"
    return {"frames": given, "tokens": tokens, "origin": origin, "seen": seen.to_dict()}
