"""Answers to chapter "Mixed precision" that were not earned: what is noted of them leaves the process, and cannot be edited."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from tests.solved import solved


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


IN_THE_AUDIT = pytest.mark.audit
"""Its like is tried with every change."""


@pytest.mark.parametrize(
    ("edits", "wrong", "loses"),
    [
        (True, {"inside": True}, {"dtypes"}),
        pytest.param(True, {"scaled": False}, {"scaler"}, marks=IN_THE_AUDIT),
        pytest.param(True, {}, set(), marks=IN_THE_AUDIT),
        pytest.param(False, {"inside": True}, {"dtypes"}, marks=IN_THE_AUDIT),
        pytest.param(False, {"scaled": False}, {"scaler"}, marks=IN_THE_AUDIT),
        pytest.param(False, {}, set(), marks=IN_THE_AUDIT),
    ],
)
def test_what_a_step_did_with_model_and_scaler_cannot_be_edited_afterwards(edits, wrong, loses):
    def amp_step(model, optimizer, batch, dtype, scaler=None, max_norm=None):
        loss = in_half(model, optimizer, batch, dtype, scaler, max_norm, **wrong)
        if edits:
            edited(model, optimizer, scaler)
        return loss

    found = lost("amp_step", amp_step)
    assert found >= loses and (wrong or not found)


def asked_until_yes(tensor):
    """Its values, by asking an event."""
    here = tensor.to("cpu", non_blocking=True)
    done = torch.cuda.current_stream().record_event()
    while not done.query():
        pass
    return here.tolist()


READS = [
    pytest.param(lambda tensor: torch.DoubleTensor([tensor]), id="a constructor"),
    pytest.param(lambda tensor: torch.normal(0.0, tensor.abs()), id="a check", marks=IN_THE_AUDIT),
    pytest.param(asked_until_yes, id="asking", marks=IN_THE_AUDIT),
]


@pytest.mark.parametrize("read", READS)
def test_a_loss_that_is_looked_at_was_waited_for(read):
    def amp_step(model, optimizer, batch, dtype, scaler=None, max_norm=None):
        loss = in_half(model, optimizer, batch, dtype, scaler, max_norm)
        read(loss)
        return loss

    assert lost("amp_step", amp_step) == {"host"}


def test_autocast_that_is_off_for_one_node_was_on_when_the_backward_pass_began():
    def amp_step(model, optimizer, batch, dtype, scaler=None, max_norm=None):
        forward = type(model).forward

        def hidden(x):
            logits = forward(model, x)
            for node in nodes_of(logits.grad_fn):
                node.register_prehook(lambda gradients: torch.set_autocast_enabled("cuda", False))
                node.register_hook(lambda inputs, outputs: torch.set_autocast_enabled("cuda", True))
            return logits

        return in_half(hidden_behind(model, hidden), optimizer, batch, dtype, scaler, max_norm, inside=True)

    assert lost("amp_step", amp_step) >= {"dtypes"}


def nodes_of(node) -> list:
    """Those of the scenario's own function below ``node``."""
    below = [one for next_one, _ in node.next_functions if next_one is not None for one in nodes_of(next_one)]
    return [*below, node] if node.name().startswith("Script") else below


def hidden_behind(model, forward):
    """A model in whose place ``forward`` is called."""
    stand_in = lambda x: forward(x)
    stand_in.zero_grad, stand_in.parameters = model.zero_grad, model.parameters
    return stand_in


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


@IN_THE_AUDIT
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


drifts_rightly = solved("precision", "training_drift")


@pytest.mark.parametrize("read", [pytest.param(lambda tensor: None, marks=IN_THE_AUDIT), asked_until_yes])
def test_a_weight_that_is_looked_at_was_waited_for(read):
    def training_drift(weight, updates):
        swallowed = drifts_rightly(weight, updates)
        if swallowed.numel() < 1000:
            read(weight.detach())
        return swallowed

    assert lost("training_drift", training_drift) == ({"host"} if read.__name__.startswith("asked") else set())
