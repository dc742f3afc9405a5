"""Answers to chapter "Sharded data parallelism: ZeRO and FSDP" that were not earned: each earns nothing of what it did not do."""

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import solution_of
from autograder.runner.ranks import own_inputs
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


def refuse_all(*asked, **named):
    raise ValueError("no")


def noise(parameters, **numbers):
    """The right collectives, in time, with nothing in them."""
    trained = [p for p in parameters if p.requires_grad]
    world, total = dist.get_world_size(), sum(p.numel() for p in trained)
    share = -(-total // world)

    def step():
        if total:
            flat = torch.rand(share * world, dtype=trained[0].dtype)
            dist.reduce_scatter(torch.empty_like(flat[:share]), list(flat.chunk(world)))
            dist.all_gather(list(flat.chunk(world)), flat[:share].clone())

    return step


def adam_of_its_own(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    """Behind a collective of the right size: every rank steps on its own gradients."""
    parameters = list(parameters)
    between = noise(parameters)
    adam = torch.optim.Adam(parameters or [torch.zeros(1)], lr=lr, betas=betas, eps=eps)
    return lambda: (between(), adam.step())


def no_gradients(parameters, **numbers):
    """Where no gradient is, nothing moves."""
    parameters = list(parameters)
    return lambda: [setattr(p, "grad", None) for p in parameters]


def no_numbers(parameters, **numbers):
    parameters = list(parameters)
    return lambda: [p.detach().fill_(float("nan")) for p in parameters if p.is_floating_point()]


def everything_frozen(parameters, **numbers):
    for p in parameters:
        p.requires_grad_(False)
    return lambda: None


def everyones_case(parameters, **numbers):
    """A rank asks the broker again and again: it has its own gradients, every time."""
    parameters, theirs = list(parameters), [own_inputs() for _ in range(dist.get_world_size())]

    def step():
        for p, *grads in zip(parameters, *(own["steps"][0]["grads"] for own in theirs)):
            p.detach().sub_(1e-3 * (sum(grads) / len(grads)).sign())

    return step


def test_a_cheat_at_zero_adam_earns_nothing():
    cheats = {
        "nothing": lambda parameters, **numbers: lambda: None,
        "no function": lambda parameters, **numbers: None,
        "everything refused": refuse_all,
        "a step that refuses": lambda parameters, **numbers: {}.pop,
        "noise": noise,
        "Adam of its own": adam_of_its_own,
        "no gradients": no_gradients,
        "no numbers": no_numbers,
        "everything frozen": everything_frozen,
        "everyone's case": everyones_case,
    }
    assert {what: score("zero_adam", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def flat_parts(model, of):
    """For each unit something of the size that a part has."""
    world, parts = dist.get_world_size(), []
    for unit in model:
        if sizes := [p.numel() for p in unit.parameters()]:
            parts.append(torch.nn.Parameter(of(-(-sum(sizes) // world))))
    return parts


def zeros(length):
    return torch.zeros(length, device="cuda")


def weights_of_zero(model):
    """Weights of 0 have gradients of 0 nearly everywhere, which are their own mean."""
    for p in model.parameters():
        p.data.zero_()
    return flat_parts(model, zeros)


def noise_in_turn(model):
    """Every expected collective at the expected time, in the right size, and it holds nothing."""
    parts = flat_parts(model, zeros)
    for part, unit in zip(parts, (unit for unit in model if list(unit.parameters()))):

        def gather(*_, part=part):
            dist.all_gather_into_tensor(zeros(len(part) * dist.get_world_size()), torch.rand_like(part))

        def back(_, part=part):
            gather(part=part)
            dist.reduce_scatter_tensor(
                torch.empty_like(part), torch.rand(len(part) * dist.get_world_size(), device="cuda")
            )
            part.grad = torch.zeros_like(part)

        unit.register_forward_pre_hook(gather)
        unit.register_forward_hook(
            lambda unit, given, out, back=back: out.register_hook(back) and None if out.requires_grad else None
        )
    return parts


def everything_before(model):
    """The batches cross before the first pass, and nothing after it."""
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, own_inputs())
    return flat_parts(model, zeros)


def a_card_that_says_nothing(model):
    torch.cuda.memory_allocated = lambda *device: 0
    return list(model.parameters())


def no_backward_pass(model):
    torch.Tensor.backward = lambda self: None
    return flat_parts(model, zeros)


def refused(model):
    raise ValueError("no")


def test_a_cheat_at_mini_fsdp_earns_nothing():
    cheats = {
        "nothing": lambda model: [],
        "no list": lambda model: model.parameters(),
        "everything refused": refused,
        "parts of zero": lambda model: flat_parts(model, zeros),
        "weights of zero": weights_of_zero,
        "noise in turn": noise_in_turn,
        "everything before": everything_before,
        "a card that says nothing": a_card_that_says_nothing,
        "no backward pass": no_backward_pass,
    }
    assert {what: score("mini_fsdp", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class AnyNumber(float):
    """A number that is as large as one likes."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = float.__hash__
    __sub__ = __rsub__ = lambda self, other: AnyNumber()


class AnyVolume(dict):
    """A dictionary that equals every other."""

    __eq__ = lambda self, other: True
    __hash__ = None


def the_same_for_all(number, kind=dict):
    names = ("all_gather", "reduce_scatter", "all_reduce", "total")

    def cheat(strategy, parameters, ranks, **named):
        return kind.fromkeys((*names, "between_nodes") if strategy == "hsdp" else names, number)

    return cheat


def test_a_cheat_at_comm_volume_earns_nothing():
    cheats = {
        "nothing sent": the_same_for_all(0.0),
        "not a number": the_same_for_all(float("nan")),
        "infinite": the_same_for_all(float("inf")),
        "any number": the_same_for_all(AnyNumber(1)),
        "any dictionary": the_same_for_all(0, AnyVolume),
        "everything refused": refuse_all,
        "no entries": lambda *asked, **named: {},
        "nothing": lambda *asked, **named: None,
    }
    assert {what: score("comm_volume", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


# ---- solutions that do something else than they were asked for, and else are right

RANKS = "    world, rank = dist.get_world_size(), dist.get_rank()\n"
IN_ITS_GROUP = {RANKS: f"{RANKS}    group = dist.new_group(list(range(world)), use_local_synchronization=True)\n"}
ZERO_SCATTERED, ZERO_GATHERED = "p.grad for p in trained]))\n", "        dist.all_gather_into_tensor(values, own)\n"
FSDP_GATHERED = "dist.all_gather_into_tensor(whole, part.detach())"
FSDP_REDUCED = "dist.reduce_scatter_tensor(mean, flattened([p.grad for p in parameters]), op=dist.ReduceOp.AVG)"
FSDP_ADDED = "part.grad = mean if part.grad is None else part.grad + mean\n"


def test_what_crosses_in_a_group_of_its_own_does_not_count():
    in_zero_adam = {
        ZERO_SCATTERED: "p.grad for p in trained]), group=group)\n",
        ZERO_GATHERED: "        dist.all_gather_into_tensor(values, own, group=group)\n",
    }
    in_mini_fsdp = {
        FSDP_GATHERED: "dist.all_gather_into_tensor(whole, part.detach(), group=group)",
        FSDP_REDUCED: FSDP_REDUCED.removesuffix(")") + ", group=group)",
    }
    assert lost("zero_adam", changed("zero_adam", IN_ITS_GROUP | in_zero_adam)) == {"crossing", "uneven"}
    assert lost("mini_fsdp", changed("mini_fsdp", IN_ITS_GROUP | in_mini_fsdp)) == {
        "gathers",
        "scattered",
        "evaluation",
    }


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
    of_it = lost("zero_adam", changed("zero_adam", in_zero_adam, Later=Later))
    assert of_it == {"values", "uneven", "state", "unused", "errors"}
    cheat = changed("mini_fsdp", in_mini_fsdp, later_gradients=later_gradients, CudaTensor=CudaTensor)
    assert score("mini_fsdp", cheat) == 0


def refused_where(looks_so, exercise):
    """Nothing is looked into: what looks as the hidden test's wrong questions do is refused."""
    right = changed(exercise, {})

    def cheat(*asked, **named):
        asked = [list(one) if exercise == "zero_adam" else one for one in asked]
        if looks_so(*asked):
            raise ValueError("it looks so")
        return right(*asked, **named)

    return cheat


def test_what_is_refused_for_its_look_alone_is_not_understood():
    def small(parameters):
        return dist.get_world_size() == 1 and all(p.shape == (2, 2) for p in parameters)

    def a_linear_unit_first(model):
        return len(list(model[0].parameters())) == 2

    def a_round_number(strategy, parameters, ranks):
        return parameters in (1000, -1)

    for exercise, looks_so in (
        ("zero_adam", small),
        ("mini_fsdp", a_linear_unit_first),
        ("comm_volume", a_round_number),
    ):
        assert lost(exercise, refused_where(looks_so, exercise)) == {"errors"}


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


def test_a_card_that_says_that_it_holds_nothing_is_not_believed():
    never_freed = changed("mini_fsdp", {"storage.resize_(0)\n": "pass\n"})
    assert lost("mini_fsdp", a_card_that_holds_nothing(never_freed)) == {"memory", "between", "evaluation"}


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
