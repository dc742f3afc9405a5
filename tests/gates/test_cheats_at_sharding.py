"""Answers to chapter "Sharded data parallelism: ZeRO and FSDP" that were not earned: each earns nothing of what it did not do."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import solution_of
from autograder.runner.scenario_runner import run_case
from exercises.sharding.zero_adam import run as zero_adam
from gpulab.cuda.device.state import device_on
from gpulab.cuda.device.tensor import CudaTensor


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"sharding.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


NOTEBOOK = read_text_notebook(Path(__file__).parents[2] / "exercises/sharding/notebook.py")


def changed(exercise: str, edits: dict[str, str], **names):
    """The solution with some of its text replaced, where ``names`` are known too."""
    source = solution_of(NOTEBOOK, exercise)
    for old, new in edits.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    namespace = {"torch": torch, "dist": dist, "nn": nn, **names}
    exec(source, namespace)
    return namespace[exercise]


def lost(exercise: str, function, seed: int = 7) -> set[str]:
    """The criteria that it loses."""
    name = f"sharding.{exercise}"
    verdict = judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))
    return {line.criterion for line in verdict.lines if line.message}


# ---- solutions that do something else than they were asked for, and else are right

RANKS = "    world, rank = dist.get_world_size(), dist.get_rank()\n"
IN_ITS_GROUP = {RANKS: f"{RANKS}    group = dist.new_group(list(range(world)), use_local_synchronization=True)\n"}
ZERO_SCATTERED, ZERO_GATHERED = "p.grad for p in trained]))\n", "        dist.all_gather_into_tensor(values, own)\n"
FSDP_GATHERED = "dist.all_gather_into_tensor(whole, part.detach())"
FSDP_REDUCED = "dist.reduce_scatter_tensor(mean, flattened([p.grad for p in parameters]), op=dist.ReduceOp.AVG)"
FSDP_ADDED = "part.grad = mean if part.grad is None else part.grad + mean\n"


@pytest.mark.audit
def test_what_crosses_in_a_group_of_its_own_does_not_count():
    in_zero_adam = {
        ZERO_SCATTERED: "p.grad for p in trained]), group=group)\n",
        ZERO_GATHERED: "        dist.all_gather_into_tensor(values, own, group=group)\n",
    }
    in_mini_fsdp = {
        FSDP_GATHERED: "dist.all_gather_into_tensor(whole, part.detach(), group=group)",
        FSDP_REDUCED: FSDP_REDUCED.removesuffix(")") + ", group=group)",
    }
    assert lost("zero_adam", changed("zero_adam", IN_ITS_GROUP | in_zero_adam)) == {"crossing"}
    assert lost("mini_fsdp", changed("mini_fsdp", IN_ITS_GROUP | in_mini_fsdp)) == {"gathers", "scattered"}


class Later(nn.Parameter):
    """A parameter that comes to its values when somebody looks."""

    awaited: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            while cls.awaited:
                cls.awaited.pop()()
            return func(*args, **kwargs or {})

    @classmethod
    def write(cls, parameter, work, values):
        parameter.__class__ = cls
        cls.awaited.append(lambda: (work.wait(), parameter.copy_(values.view(parameter.shape))))


EVERYTHING = {"shards", "gradients", "gathers", "scattered", "memory", "evaluation", "errors"}


def later_gradients(of):
    """A class of tensors on the card whose gradient comes when somebody looks. ``of``: the class that they have."""

    class Later(of):
        awaited: list = []

        @property
        def grad(self):
            while self.awaited:
                self.awaited.pop()()
            return of.grad.fget(self)

        @grad.setter
        def grad(self, gradient):
            of.grad.fset(self, gradient)

    return Later


@pytest.mark.audit
def test_values_that_come_when_somebody_looks_are_not_there():
    in_zero_adam = {
        ZERO_GATHERED: "        work = dist.all_gather_into_tensor(values, own, async_op=True)\n",
        "parameter.copy_(new.view(parameter.shape))": "Later.write(parameter, work, new)",
    }
    in_mini_fsdp = {
        FSDP_REDUCED: f"work = {FSDP_REDUCED.removesuffix(')')}, async_op=True)",
        FSDP_ADDED: f"part.__class__ = Later = later_gradients(CudaTensor)\n            def add():\n                work.wait()\n"
        f"                {FSDP_ADDED}            Later.awaited.append(add)\n",
    }
    assert lost("zero_adam", changed("zero_adam", in_zero_adam, Later=Later)) == {"values"}
    cheat = changed("mini_fsdp", in_mini_fsdp, later_gradients=later_gradients, CudaTensor=CudaTensor)
    assert lost("mini_fsdp", cheat) == EVERYTHING - {"errors"}


def refused_where(looks_so, exercise):
    """Nothing is looked into: what looks as the hidden test's wrong questions do is refused."""
    right = changed(exercise, {})

    def cheat(*asked, **named):
        asked = [list(one) if exercise == "zero_adam" else one for one in asked]
        if looks_so(*asked):
            raise ValueError("it looks so")
        return right(*asked, **named)

    return cheat


@pytest.mark.audit
def test_what_is_refused_for_its_look_alone_is_not_understood():
    def small(parameters):
        return dist.get_world_size() == 1 and all(p.shape == (2, 2) for p in parameters)

    def a_linear_unit_first(model):
        return len(list(model[0].parameters())) == 2

    def a_round_number(strategy, parameters, *others):
        return parameters in (1000, -1)

    for exercise, looks_so in (
        ("zero_adam", small),
        ("mini_fsdp", a_linear_unit_first),
        ("comm_volume", a_round_number),
    ):
        assert lost(exercise, refused_where(looks_so, exercise)) == {"errors"}


@pytest.mark.audit
def test_large_models_are_no_others():
    """The hidden test's largest has six units."""
    averaged = "full = flattened([p.grad for p in parameters])\n            if len(model) == 6:\n                dist.all_reduce(full)\n"
    averaged += (
        f"                mean = full.chunk(world)[rank] / world\n            else:\n                {FSDP_REDUCED}"
    )
    assert lost("mini_fsdp", changed("mini_fsdp", {FSDP_REDUCED: averaged})) == {"scattered"}


def a_card_that_holds_nothing(right):
    def cheat(model):
        type(device_on().machine.allocator).allocated = property(lambda self: 0)
        return right(model)

    return cheat


@pytest.mark.audit
def test_a_card_that_says_that_it_holds_nothing_is_not_believed():
    never_freed = changed("mini_fsdp", {"storage.resize_(0)\n": "pass\n"})
    assert lost("mini_fsdp", a_card_that_holds_nothing(never_freed)) == EVERYTHING - {"errors"}


@pytest.mark.audit
def test_gradients_are_looked_at_wherever_there_are_ranks():
    """The hidden test that takes gradients away has three."""
    scratch = "parameter.copy_(new.view(parameter.shape))"
    edits = {scratch: f"{scratch}\n            if world != 3:\n                parameter.grad.copy_(parameter)"}
    assert lost("zero_adam", changed("zero_adam", edits)) == {"unused"}


def nothing_held(right):
    def cheat(parameters, **numbers):
        zero_adam._held_since = lambda held, before: 0
        return right(parameters, **numbers)

    return cheat


def test_a_rank_that_holds_no_moments_is_not_believed():
    everything_kept = changed(
        "zero_adam",
        {"        values = flat(trained)\n": "        values = flat(trained)\n        step.kept = values\n"},
    )
    assert lost("zero_adam", nothing_held(everything_kept)) == {"state"}
