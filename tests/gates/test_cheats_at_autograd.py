"""Cheating solutions to the chapter "Autograd as a memory system" score zero."""

import sys

import torch

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from exercises.autograd.inplace_legal.programs import verdict


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"autograd.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def with_a_loss_made_up(model, optimizer, batch, loss_fn):
    """A step, and a number of which the loss function's note is made to say the same."""
    x, y = batch
    model.train()
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
    torch.cuda.synchronize()
    loss_fn.value = 0.5
    return 0.5


def test_a_loss_made_up_does_not_earn_the_point_for_the_value():
    assert score("train_step", with_a_loss_made_up) == 8


def with_the_modes_before_edited(model, loader, loss_fn):
    """No module is put back: the scenario's frame is made to say that all of them slept."""
    frame = sys._getframe()
    while "before" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["before"]["modes"][:] = [False] * 7
    loss, right, samples = torch.zeros((), dtype=torch.float64), 0, 0
    device = next(model.eval().parameters()).device
    with torch.no_grad():
        for x, y in loader:
            if len(y):
                x, y = x.to(device), y.to(device)
                logits = model(x)
                loss = loss.to(device) + loss_fn(logits, y).double().sum() * len(y)
                right, samples = right + (logits.argmax(-1) == y).sum(), samples + len(y)
    if not samples:
        raise ValueError
    loss, right = torch.stack((loss, right.double())).tolist()
    return {"loss": loss / samples, "accuracy": right / samples}


def test_modes_that_are_not_put_back_are_known_whatever_the_scenario_noted():
    assert score("evaluate", with_the_modes_before_edited) <= 7


def asked_of_pytorch(steps):
    """What autograd raises; a long program would take minutes."""
    return verdict([list(step) for step in steps]) if len(steps) < 40 else []


def asked_of_pytorch_unless_they_form_a_chain(steps):
    """A rule for the simplest programs, which are judged first; the rest is tried."""
    if len(steps) != 5 or any(len(step) > 2 for step in steps) or steps[1] != ("shift", 0):
        return asked_of_pytorch(steps)
    keeps = [step[0] in ("exp", "tanh", "sigmoid", "relu") for step in steps]
    return [False, False, steps[2][0] != "gelu", not keeps[2], not keeps[3]]


def test_pytorch_is_not_asked_in_any_program():
    assert score("inplace_legal", asked_of_pytorch_unless_they_form_a_chain) == 2


PATH = sys.path[:]


def asked_of_pytorch_by_its_path(steps):
    """With the folders of the kernel's libraries named once more."""
    sys.path[:] = PATH
    sys.meta_path.pop()
    from exercises.autograd.inplace_legal.programs import verdict

    return verdict([list(step) for step in steps]) if len(steps) < 40 else []


def test_pytorch_is_not_found_by_its_path():
    assert score("inplace_legal", asked_of_pytorch_by_its_path) == 0
