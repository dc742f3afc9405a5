"""E8.4 training_drift: what runs beside the learner's function."""

import torch

from autograder.protocol.event_sink import emit_note
from autograder.runner.card import at_work, idle_card
from autograder.runner.observed import observe, storage_address
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.precision.training_drift.run_update_stream import Updates
from gpulab.observe.authors import memory


def run(learner: Learner, case: dict) -> dict:
    """Let the updates be applied as they come; a second time at the same address where the case says so."""
    with idle_card():
        base = case["base"].cuda()
        weight = base.as_strided(case["shape"], case["strides"], case["offset"]).requires_grad_(case["gradient"])
        if case["again"]:
            kept = memory(base).copy()
            memory(base)[:] = 0
            first = Updates(weight, base, case["updates"][:1], case["turned"], note=lambda *_: None)
            outcome(lambda: learner.training_drift(weight, first.stream()))
            memory(base)[:] = kept
        updates = Updates(weight, base, case["updates"], case["turned"], emit_note)
        address_before = storage_address(weight)
        torch.cuda.synchronize()
        still_at_work = at_work()
        with observe() as seen:
            found = outcome(lambda: learner.training_drift(weight, updates.stream()))
        emit_note("returned", still_at_work())
        updates.look()
        swallowed = found.get("returned")
        on_card = isinstance(swallowed, torch.Tensor) and swallowed.is_cuda
        error = {"error": found["error"]} if "error" in found else {}
        return {
            **error,
            "swallowed": swallowed.detach().cpu() if on_card else swallowed,
            "on_card": on_card,
            "same": storage_address(weight) == address_before
            and weight.dtype == torch.bfloat16
            and list(weight.stride()) == case["strides"]
            and weight.requires_grad == case["gradient"]
            and weight.grad_fn is None,
            "seen": seen.to_dict(),
        }
