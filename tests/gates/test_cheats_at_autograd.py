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


def forward_alone(model, optimizer, batch, loss_fn):
    """The loss in training mode, and no step."""
    with torch.no_grad():
        return loss_fn(model.train()(batch[0]), batch[1]).item()


def step_alone(model, optimizer, batch, loss_fn):
    """A step on whatever gradients there are."""
    optimizer.step()
    return float(loss_fn.value) if hasattr(loss_fn, "value") else 0.0


def gradients_made_up(model, optimizer, batch, loss_fn):
    """Neither forward nor backward pass."""
    for parameter in model.train().parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step()
    return 0.0


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


def test_a_cheat_at_train_step_earns_nothing():
    cheats = {
        "a loss made up": lambda *given: 0.0,
        "no step": forward_alone,
        "nothing but a step": step_alone,
        "gradients made up": gradients_made_up,
        "everything refused": lambda *given: (_ for _ in ()).throw(RuntimeError()),
    }
    assert {what: score("train_step", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def of_the_first_batch(model, loader, loss_fn):
    """One batch speaks for all."""
    for x, y in loader:
        device = next(model.parameters()).device
        with torch.no_grad():
            logits = model.eval()(x.to(device))
        return {"loss": loss_fn(logits, y.to(device)).item(), "accuracy": 1.0}
    raise ValueError


def from_what_the_loss_function_noted(model, loader, loss_fn):
    """A made-up answer in the right form, with whatever the scenario's objects show."""
    values = getattr(loss_fn, "values", [[1, 1.0]])
    return {"loss": sum(value for _, value in values), "accuracy": 0.5}


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


def test_a_cheat_at_evaluate_earns_nothing():
    cheats = {
        "numbers made up": lambda *given: {"loss": 0.0, "accuracy": 1.0},
        "one batch": of_the_first_batch,
        "what was noted": from_what_the_loss_function_noted,
        "everything refused": lambda *given: (_ for _ in ()).throw(ValueError()),
    }
    assert {what: score("evaluate", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def bytes_of_the_result(fn, *inputs):
    """What comes out, whatever was saved."""
    result = fn(*inputs)
    return result.nbytes if isinstance(result, torch.Tensor) else 0


def test_a_cheat_at_saved_bytes_earns_nothing():
    cheats = {
        "nothing is held": lambda fn, *inputs: (fn(*inputs), 0)[1],
        "the inputs": lambda fn, *inputs: sum(x.nbytes for x in inputs if isinstance(x, torch.Tensor)),
        "the result": bytes_of_the_result,
        "everything refused": lambda fn, *inputs: (_ for _ in ()).throw(KeyError()),
    }
    assert {what: score("saved_bytes", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


PATH = sys.path[:]


class Agreeable(list):
    """As long as one likes, and equal to whatever one likes, on this side of the wire."""

    def __eq__(self, other):
        return True


def asked_of_pytorch(steps):
    """What autograd raises; a long program would take minutes."""
    return verdict([list(step) for step in steps]) if len(steps) < 40 else []


def asked_of_pytorch_by_its_path(steps):
    """The same, with the folders of the kernel's libraries named once more."""
    sys.path[:] = PATH
    sys.meta_path.pop()
    from exercises.autograd.inplace_legal.programs import verdict

    return verdict([list(step) for step in steps]) if len(steps) < 40 else []


def asked_of_pytorch_unless_they_form_a_chain(steps):
    """A rule for the simplest programs, which are judged first; the rest is tried."""
    if len(steps) != 5 or any(len(step) > 2 for step in steps) or steps[1] != ("shift", 0):
        return asked_of_pytorch(steps)
    keeps = [step[0] in ("exp", "tanh", "sigmoid", "relu") for step in steps]
    return [False, False, steps[2][0] != "gelu", not keeps[2], not keeps[3]]


def test_pytorch_is_not_asked_in_any_program():
    assert score("inplace_legal", asked_of_pytorch_unless_they_form_a_chain) == 2


def test_a_cheat_at_inplace_legal_earns_nothing():
    cheats = {
        "never": lambda steps: [False] * len(steps),
        "always": lambda steps: [step[0] not in ("leaf", "input", "view", "detach", "gelu") for step in steps],
        "agreeable": lambda steps: Agreeable([True] * len(steps)),
        "no verdicts": lambda steps: [],
        "PyTorch's": asked_of_pytorch,
        "PyTorch's, by its path": asked_of_pytorch_by_its_path,
        "everything refused": lambda steps: (_ for _ in ()).throw(ValueError()),
    }
    assert {what: score("inplace_legal", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
