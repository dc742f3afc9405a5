"""Cheating solutions to the chapter "Tensor, pipeline and 3D parallelism" score zero."""

import torch
import torch.distributed as dist
from torch import nn

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.ranks import own_inputs
from autograder.runner.scenario_runner import run_case
from gpulab.parallel import gpipe, mesh_groups, one_f_one_b, violations


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"parallelism.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def refuse_all(*asked):
    raise ValueError("no")


class AnyText(str):
    """A text that equals every other."""

    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0


class AnyList(list):
    __eq__ = lambda self, other: True
    __hash__ = None


def everything(table, stages, microbatches):
    """Every violation that there could be."""
    actions = [f"{s}{kind}{k}" for s in range(stages) for kind in "FBIW" for k in range(microbatches)]
    pairs = [(kind, action) for kind in ("missing", "early", "twice", "foreign") for action in actions]
    return pairs + [("split", str(s)) for s in range(stages)]


def test_a_cheat_at_validate_schedule_earns_nothing():
    cheats = {
        "nothing wrong": lambda *asked: [],
        "everything wrong": everything,
        "everything refused": refuse_all,
        "any pair": lambda *asked: [(AnyText("early"), AnyText("0F0"))],
        "any list": lambda *asked: AnyList(),
        "the table": lambda table, *sizes: table,
        "a generator": lambda *asked: (pair for pair in ()),
    }
    assert {what: score("validate_schedule", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_the_librarys_judge_is_not_an_answer():
    def borrowed(table, stages, microbatches):
        found = violations(table, stages, microbatches)
        return [(one.kind, str(one.action.stage) if one.kind == "split" else str(one.action)) for one in found]

    assert score("validate_schedule", borrowed) == 0


def of_the_library(stages, microbatches):
    return one_f_one_b(stages, microbatches)


class AnyCell(str):
    """Idle, or whatever is expected."""

    __eq__ = lambda self, other: True
    __hash__ = str.__hash__


def test_a_cheat_at_schedule_1f1b_earns_nothing():
    cheats = {
        "nothing": lambda *asked: [],
        "idle rows": lambda stages, k: [[None] * (2 * (k + stages - 1)) for _ in range(stages)],
        "everything refused": refuse_all,
        "the library's": of_the_library,
        "GPipe by the library": lambda *asked: gpipe(*asked),
        "any cell": lambda stages, k: [[AnyCell("0F0")] * (2 * (k + stages - 1)) for _ in range(stages)],
        "one good table": lambda *asked: [["0F0", "0B0"]],
    }
    assert {what: score("schedule_1f1b", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class Noise(nn.Module):
    """The right parameters, and collectives of the right size with nothing in them."""

    def __init__(self, up, down):
        super().__init__()
        ranks, rank = dist.get_world_size(), dist.get_rank()
        cuts = ((up.weight, 0), (up.bias, 0), (down.weight, 1))
        parts = [None if p is None else p.detach().chunk(ranks, dim)[rank] for p, dim in cuts] + [down.bias]
        self.parts = nn.ParameterList(
            nn.Parameter(p.detach().clone(memory_format=torch.contiguous_format)) for p in parts if p is not None
        )
        self.gives = down.out_features

    def forward(self, x):
        total = torch.rand(*x.shape[:-1], self.gives, dtype=x.dtype)
        dist.all_reduce(total)
        return total + 0 * sum(p.sum() for p in self.parts)


class WholeOnEveryRank(nn.Module):
    """All ranks' shares are asked for, and the whole MLP computed; the rank has its own alone, every time."""

    def __init__(self, up, down):
        super().__init__()
        self.up, self.down, self.theirs = up, down, [own_inputs() for _ in range(dist.get_world_size())]

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class Nothing(nn.Module):
    def forward(self, x):
        return x


def test_a_cheat_at_tensor_parallel_mlp_earns_nothing():
    cheats = {
        "nothing": lambda up, down: Nothing(),
        "no module": lambda up, down: None,
        "noise": Noise,
        "the whole on every rank": WholeOnEveryRank,
        "the whole layers": lambda up, down: nn.Sequential(up, nn.GELU(), down),
        "everything refused": refuse_all,
    }
    assert (
        {what: score("tensor_parallel_mlp", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
    )


def everything_alone(model, cluster):
    """Every GPU a replica of its own, and the groups of that."""
    n = cluster["nodes"] * cluster["gpus"]
    return (n, 1, 1), {"dp": [list(range(n))], "pp": [[r] for r in range(n)], "tp": [[r] for r in range(n)]}


class AnyPlan(tuple):
    __eq__ = lambda self, other: True
    __hash__ = tuple.__hash__


def no_room(model, cluster):
    """The job is made to fit."""
    cluster["memory"] = 2**60
    return everything_alone(model, cluster)


def test_a_cheat_at_mesh_plan_earns_nothing():
    cheats = {
        "nothing": lambda *asked: None,
        "every GPU alone": everything_alone,
        "everything refused": refuse_all,
        "any plan": lambda *asked: AnyPlan(((1, 1, 1), {})),
        "the job made to fit": no_room,
        "the notes' plan": lambda *asked: ((8, 4, 2), mesh_groups({"dp": 8, "pp": 4, "tp": 2})),
        "nothing in a dictionary": lambda *asked: ((0, 0, 0), {"dp": [], "pp": [], "tp": []}),
    }
    assert {what: score("mesh_plan", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
