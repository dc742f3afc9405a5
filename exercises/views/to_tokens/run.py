"""E1.4 to_tokens: what runs beside the learner's function."""

import torch

from autograder.runner.observed import observe, record_inputs, storage_address
from autograder.runner.scenario_runner import Learner
from exercises.views.compact.run_refilled import zeroed_first


def run(learner: Learner, case: dict) -> dict:
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
