"""Cheating solutions to the chapter "Staying alive: stability, schedules, checkpoints" score zero."""

import copy

import torch
import torch.distributed as dist

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"stability.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def score_of_both(save, load) -> float:
    names = {"save_state": save, "load_state": load}
    return judge_here(
        "stability.save_state", lambda inputs: run_case("stability.save_state", names, inputs), Sampler(7)
    ).score


def refuse_all(*asked, **named):
    raise ValueError("no")


class AnyNumber(float):
    """A number that is as large as one likes."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = float.__hash__
    __sub__ = __rsub__ = lambda self, other: AnyNumber()


def flat_config(step, config):
    """Every rate is right where peak and floor are the same."""
    config["peak"] = config["floor"] = 1.0
    return 1.0


def no_gradients(parameters, max_norm, group=None):
    for parameter in parameters:
        parameter.grad = None
    return torch.zeros((), device="cuda")


class AnyTensor(torch.Tensor):
    """A norm that lies wherever one likes and equals what one likes."""

    is_cuda = True
    __eq__ = lambda self, other: True
    __hash__ = None
    __float__ = lambda self: 1.0


def test_a_cheat_at_clip_global_earns_nothing():
    cheats = {
        "nothing": lambda parameters, max_norm, group=None: None,
        "a norm of 0": lambda parameters, max_norm, group=None: torch.zeros((), device="cuda"),
        "no number": lambda parameters, max_norm, group=None: torch.full((), float("nan"), device="cuda"),
        "infinite": lambda parameters, max_norm, group=None: torch.full((), float("inf"), device="cuda"),
        "the limit": lambda parameters, max_norm, group=None: torch.tensor(float(max_norm), device="cuda"),
        "everything refused": refuse_all,
        "gradients taken away": no_gradients,
        "a norm that is as large as one likes": lambda parameters, max_norm, group=None: torch.zeros(()).as_subclass(
            AnyTensor
        ),
    }
    assert {what: score("clip_global", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_lr_at_earns_nothing():
    cheats = {
        "any number": lambda step, config: AnyNumber(1e-4),
        "not a number": lambda step, config: float("nan"),
        "infinite": lambda step, config: float("inf"),
        "always the peak": lambda step, config: config["peak"],
        "always the floor": lambda step, config: config["floor"],
        "everything refused": refuse_all,
        "a config of peak 0": flat_config,
    }
    assert {what: score("lr_at", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def nothing(path, state):
    pass


def an_empty_file(path, state):
    open(path, "wb").close()


KEPT: dict = {}


def kept_in_memory(path, state):
    """What is saved stays in this process; a file of the name is there."""
    KEPT[path] = state, {name: copy.deepcopy(part.state_dict()) for name, part in state.items()}
    an_empty_file(path, state)


def from_memory(path, state):
    for name, part in state.items():
        part.load_state_dict(KEPT[path][1][name])


def the_process_itself(path, state):
    """The objects' fingerprint is made equal, whatever they are."""
    for part in state.values():
        part.state_dict = lambda: {}
    an_empty_file(path, state)


def everything_fails(path, state):
    raise OSError("full")


def test_a_cheat_at_save_state_earns_nothing():
    cheats = {
        "nothing": (nothing, nothing),
        "an empty file": (an_empty_file, nothing),
        "everything refused": (refuse_all, refuse_all),
        "everything fails": (everything_fails, refuse_all),
        "kept in memory": (kept_in_memory, from_memory),
        "objects that say nothing": (the_process_itself, nothing),
    }
    assert {what: score_of_both(*cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def given_up(loss):
    raise RuntimeError("given up")


def its_own_loss(optimizer, **named):
    """Behind a collective of the right size every rank decides for itself."""

    def step(loss):
        dist.all_reduce(torch.zeros(1, dtype=torch.float64), group=named.get("group"))
        if loss < 5:
            optimizer.step()
        optimizer.zero_grad()
        return loss < 5

    return step


def test_a_cheat_at_spike_guard_earns_nothing():
    cheats = {
        "always a step": lambda optimizer, **named: lambda loss: optimizer.step() or optimizer.zero_grad() or True,
        "never a step": lambda optimizer, **named: lambda loss: optimizer.zero_grad() or False,
        "no function": lambda optimizer, **named: None,
        "everything refused": refuse_all,
        "any answer": lambda optimizer, **named: lambda loss: AnyNumber(1),
        "always given up": lambda optimizer, **named: given_up,
        "its own loss": its_own_loss,
    }
    assert {what: score("spike_guard", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
