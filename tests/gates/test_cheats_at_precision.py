"""Answers to chapter "Mixed precision" that were not earned: what is noted of them leaves the process, and cannot be edited."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case


def lost(exercise: str, function, seed: int = 7) -> set[str]:
    name = f"precision.{exercise}"
    verdict = judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))
    return {line.criterion for line in verdict.lines if line.status != "earned"}


def in_half(model, optimizer, batch, dtype, scaler=None, max_norm=None, *, inside=False, scaled=True):
    """The step of the chapter; ``inside``: its backward pass runs in autocast, too; ``scaled``: float16 has its scaler."""
    if dtype not in (torch.bfloat16, torch.float16) or dtype == torch.float16 and scaler is None:
        raise ValueError(dtype)
    scaler = scaler if dtype == torch.float16 and scaled else torch.amp.GradScaler("cuda", enabled=False)
    model.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=dtype):
        loss = cross_entropy(model(batch[0]).float(), batch[1])
        if inside:
            scaler.scale(loss).backward()
    if not inside:
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


def edited(*handed) -> None:
    """What objects keep in lists and counts under any name becomes what a right step would leave."""
    for name, value in [pair for one in handed if one is not None for pair in vars(one).items()]:
        if isinstance(value, list) and name != "param_groups":
            value[:] = ["scale", "unscale_", "step", "update"] if value and isinstance(value[0], str) else [False]


@pytest.mark.parametrize(
    ("wrong", "loses"), [({}, set()), ({"inside": True}, {"dtypes"}), ({"scaled": False}, {"scaler"})]
)
@pytest.mark.parametrize("edits", [False, True])
def test_what_a_step_did_with_model_and_scaler_cannot_be_edited_afterwards(wrong, loses, edits):
    def amp_step(model, optimizer, batch, dtype, scaler=None, max_norm=None):
        loss = in_half(model, optimizer, batch, dtype, scaler, max_norm, **wrong)
        if edits:
            edited(model, optimizer, scaler)
        return loss

    found = lost("amp_step", amp_step)
    assert found >= loses and (wrong or not found)


def drifts_at_the_end(weight, updates):
    """The sum is right when all is over, and was wrong after each update before."""
    if weight.dtype != torch.bfloat16:
        raise ValueError(weight.dtype)
    start, master = weight.detach().clone(), weight.detach().float()
    still, swallowed = torch.ones_like(start, dtype=torch.bool), torch.zeros_like(start, dtype=torch.int32)
    for update in updates:
        if update.shape != weight.shape:
            raise ValueError(update.shape)
        master += update
        still &= (start + update).bfloat16() == start
        swallowed += still
    weight.detach().copy_(master)
    return swallowed


def test_a_weight_that_is_right_at_the_end_alone_was_seen_after_every_update():
    assert lost("training_drift", drifts_at_the_end) >= {"drift"}


def test_a_stream_of_updates_has_no_attributes_and_no_class_of_another():
    def training_drift(weight, updates):
        with pytest.raises(AttributeError):
            updates.looks = []
        with pytest.raises(TypeError):
            updates.__class__ = type("Mine", (), {})
        return drifts_at_the_end(weight, updates)

    assert lost("training_drift", training_drift) >= {"drift"}
