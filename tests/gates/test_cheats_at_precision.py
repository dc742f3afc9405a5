"""Cheating solutions to the chapter "Precision" score zero."""

import torch

from autograder.core.sampler import Sampler
from autograder.judge.referee import score_here
from autograder.runner.scenario_runner import run_case


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"precision.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


def also(float_fields, round_to):
    """The score of two functions in one cell."""
    functions = {"round_to": round_to, "float_fields": float_fields}
    return score_here(
        "precision.round_to", lambda inputs: run_case("precision.round_to", functions, inputs), Sampler(7)
    )


def no_fields(x, fmt):
    return (torch.zeros_like(x, dtype=torch.int32),) * 3


class Agreeable(torch.Tensor):
    """Equal to whatever one likes, on this side of the wire."""

    def __eq__(self, other):
        return torch.ones(self.shape, dtype=torch.bool)


def test_a_cheat_at_round_to_earns_nothing():
    cheats = {
        "its input": lambda x, fmt: x,
        "a copy of its input": lambda x, fmt: x.clone(),
        "zeros": lambda x, fmt: torch.zeros_like(x),
        "not a number": lambda x, fmt: torch.full_like(x, torch.nan),
        "uninitialised": lambda x, fmt: torch.empty_like(x),
        "agreeable": lambda x, fmt: x.clone().as_subclass(Agreeable),
        "PyTorch's dtypes": lambda x, fmt: x.to(
            {10: torch.float16, 7: torch.bfloat16}.get(fmt[1], torch.float8_e5m2)
        ).to(x.dtype),
        "everything refused": lambda x, fmt: (_ for _ in ()).throw(ValueError()),
    }
    assert {what: also(no_fields, cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class Idle:
    """Five methods that do nothing, or what ``said`` says of them."""

    def __init__(self, init_scale=65536.0, growth_interval=2000, **said):
        self.__dict__.update(said)
        self.get_scale = lambda: init_scale

    def scale(self, loss):
        return loss

    def unscale_(self, optimizer):
        pass

    def step(self, optimizer, max_norm=None):
        return True

    def update(self):
        pass


def test_a_cheat_at_dynamic_scaler_earns_nothing():
    cheats = {
        "nothing": lambda *job, **more: None,
        "five methods that do nothing": Idle,
        "no step is ever taken": lambda *job, **more: Idle(*job, **more, step=lambda optimizer, max_norm=None: False),
        "every call is an error": lambda *job, **more: (_ for _ in ()).throw(ValueError()),
        "errors from every method": lambda *job, **more: Idle(
            *job, **more, **dict.fromkeys(("step", "update", "unscale_"), _refuse)
        ),
        "PyTorch's own": lambda init_scale=65536.0, growth_interval=2000: torch.amp.GradScaler(
            "cuda", init_scale, growth_interval=growth_interval
        ),
    }
    assert {what: score("dynamic_scaler", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def _refuse(*arguments, **more):
    raise RuntimeError


def forward_alone(model, optimizer, batch, dtype, scaler=None, max_norm=None):
    """The loss, in the right dtypes, and no step."""
    with torch.autocast("cuda", dtype=dtype):
        return torch.nn.functional.cross_entropy(model(batch[0]).float(), batch[1]).detach()


def test_a_cheat_at_amp_step_earns_nothing():
    cheats = {
        "a loss made up": lambda *job, **more: torch.zeros((), device="cuda"),
        "no step": forward_alone,
        "the batch": lambda model, optimizer, batch, *rest, **more: batch[0],
        "everything refused": lambda *job, **more: (_ for _ in ()).throw(ValueError()),
        "the scaler alone": lambda model, optimizer, batch, dtype, scaler=None, max_norm=None: (
            scaler and scaler.update(1.0)
        ),
    }
    assert {what: score("amp_step", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def asked_for_alone(weight, updates):
    """Every update is asked for, and none applied."""
    for _ in updates:
        pass
    return torch.zeros_like(weight, dtype=torch.int32)


def test_a_cheat_at_training_drift_earns_nothing():
    cheats = {
        "zeros": lambda weight, updates: torch.zeros_like(weight, dtype=torch.int32),
        "updates asked for": asked_for_alone,
        "not a number": lambda weight, updates: weight.detach().fill_(float("nan")).int(),
        "everything refused": lambda weight, updates: (_ for _ in ()).throw(ValueError()),
    }
    assert {what: score("training_drift", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
