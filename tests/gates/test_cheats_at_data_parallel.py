"""Cheating solutions to the chapter "Data parallelism in depth" score zero."""

import math
import mmap

import pytest
import torch
import torch.distributed as dist

from autograder.core.sampler import Sampler
from autograder.judge.referee import score_here
from autograder.runner.ranks import own_inputs
from autograder.runner.scenario_runner import run_case


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"data_parallel.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


def broadcast(model):
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.detach(), 0)


def frozen(model, bucket_bytes):
    broadcast(model.requires_grad_(False))
    return lambda: None


def gradients_of_zero(model, bucket_bytes):
    """Weights of 0 have gradients of 0, which are ready at once, and equal to their mean."""
    for tensor in [*model.parameters(), *model.buffers()]:
        tensor.detach().zero_()
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(
                lambda p: dist.all_reduce(torch.zeros(p.numel()), async_op=True)
            )
    return lambda: None


def noise_in_time(model, bucket_bytes):
    """What crosses has the right size and dtype, and is no gradient."""
    works = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(
                lambda p: works.append(dist.all_reduce(torch.rand(p.numel(), dtype=p.dtype), async_op=True))
            )
    return works.clear


def everything_before(model, bucket_bytes):
    """The batches cross before the first step, and nothing after it."""
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, own_inputs())
    broadcast(model)
    return lambda: None


def no_backward_pass(model, bucket_bytes):
    torch.Tensor.backward = lambda self: None
    return lambda: None


def told_once_more(model, bucket_bytes):
    """Everything begins in finish; then the places of the backward pass are told again."""
    broadcast(model)
    alone, world = dist.new_group([dist.get_rank()], use_local_synchronization=True), dist.get_world_size()

    def finish():
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= world
        for place in reversed(range(24)):
            dist.reduce(torch.tensor([place]), dist.get_rank(), group=alone, async_op=True)

    return finish


def sentinels_and_others(sentinels: dict, others: dict) -> pytest.MarkDecorator:
    """A cheat plays its cases in ranks, which are processes, and takes a second: one of each class, and in an audit the others."""
    return pytest.mark.parametrize(
        "cheats", [sentinels, pytest.param(others, marks=pytest.mark.audit)], ids=["sentinels", "others"]
    )


AT_MINI_DDP = {
    "noise in time": noise_in_time,
    "no backward pass": no_backward_pass,
}
AT_MINI_DDP_TOO = {
    "nothing": lambda model, bucket_bytes: lambda: None,
    "no function": lambda model, bucket_bytes: broadcast(model),
    "a function that refuses": lambda model, bucket_bytes: {}.pop,
    "frozen parameters": frozen,
    "gradients of zero": gradients_of_zero,
    "everything before": everything_before,
    "gradients of None": lambda model, bucket_bytes: lambda: model.zero_grad(),
    "places told once more": told_once_more,
}


@sentinels_and_others(AT_MINI_DDP, AT_MINI_DDP_TOO)
def test_a_cheat_at_mini_ddp_earns_nothing(cheats):
    assert {what: score("mini_ddp", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class AnyTime(float):
    """A number that is as large as one likes."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = float.__hash__
    __sub__ = __rsub__ = lambda self, other: AnyTime()


def refuse_all(*asked, **named):
    raise ValueError("no")


def the_same_for_all(us, best=min):
    """An answer with one time for everything."""
    return lambda layers, link, buckets: {
        "step_us": dict.fromkeys(buckets, us),
        "exposed_us": dict.fromkeys(buckets, us),
        "best": best(buckets),
    }


def test_a_cheat_at_best_bucket_earns_nothing():
    def backward_alone(layers, link, buckets):
        return the_same_for_all(float(sum(layer["us"] for layer in layers)))(layers, link, buckets)

    def an_easy_question(layers, link, buckets):
        layers[:], buckets[:] = [{"us": 0, "bytes": 0}], [1]
        return {"step_us": {1: 0.0}, "exposed_us": {1: 0.0}, "best": 1}

    cheats = {
        "no time": the_same_for_all(0.0),
        "agreeable": the_same_for_all(AnyTime(1)),
        "not a number": the_same_for_all(float("nan")),
        "infinite": the_same_for_all(float("inf"), max),
        "the backward pass": backward_alone,
        "another question": an_easy_question,
        "everything refused": refuse_all,
        "nothing": lambda *asked: {"step_us": {}, "exposed_us": {}, "best": None},
    }
    assert {what: score("best_bucket", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class AnyList(list):
    """A list that is as long as one likes and equals every other."""

    __eq__ = lambda self, other: True
    __hash__ = None
    __iter__ = lambda self: iter(range(3))


def rank_reads(indices, repeated=()):
    return {"indices": indices, "repeated": list(repeated)}


def test_a_cheat_at_epoch_indices_earns_nothing():
    cheats = {
        "no samples": lambda *asked, **named: rank_reads([]),
        "all samples": lambda length, *asked, **named: rank_reads(list(range(length))),
        "in order": lambda length, world, rank, *asked, **named: rank_reads(list(range(rank, length, world))),
        "any list": lambda *asked, **named: {"indices": AnyList([0]), "repeated": AnyList([0])},
        "everything refused": refuse_all,
        "nothing": lambda *asked, **named: None,
    }
    assert {what: score("epoch_indices", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def own_means(totals):
    return {name: float(total) / count if count else math.nan for name, (total, count) in totals.items()}


def an_honest_collective_of(numbers):
    """It hands in what it likes, and returns its own means."""

    def cheat(totals):
        if totals:
            dist.all_reduce(torch.tensor(numbers(totals), dtype=torch.float64))
        return own_means(totals)

    return cheat


def shared_between(totals, table=mmap.mmap(-1, 1 << 16), head=64):
    """Through memory that all ranks inherit, behind a collective of nothing that serves as a barrier."""
    numbers = torch.frombuffer(table, dtype=torch.float64).view(head, -1)
    names, rank, world = sorted(totals), dist.get_rank(), dist.get_world_size()
    for i, name in enumerate(names):
        numbers[rank, 2 * i], numbers[rank, 2 * i + 1] = float(totals[name][0]), totals[name][1]
    if names:
        dist.all_reduce(torch.zeros(2 * len(names), dtype=torch.float64))
    added = numbers[:world].sum(0).tolist()
    return {name: added[2 * i] / added[2 * i + 1] if added[2 * i + 1] else math.nan for i, name in enumerate(names)}


class Agreeable(float):
    """A number that is every number."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = float.__hash__


class EveryName(dict):
    """A dictionary of all names."""

    __eq__ = lambda self, other: True
    __contains__ = lambda self, name: True
    __missing__ = lambda self, name: math.nan


def asks_for_the_others(totals):
    theirs = [own_inputs() for _ in range(dist.get_world_size())]
    return own_means({name: (total, count) for own in theirs for name, total, count in own["totals"]})


def summed(totals):
    """The right answer."""
    packed = torch.tensor([[float(number) for number in totals[name]] for name in totals], dtype=torch.float64)
    dist.all_reduce(packed)
    return dict(zip(totals, (packed[:, 0] / packed[:, 1]).tolist(), strict=True))


def all_in_the_first_call(totals, means=[]):
    """The totals of the calls to come are asked for, and all are summed at once."""
    if not means:
        means.append(summed(totals))
        for _ in range(3):
            dist.barrier()
            means.append(summed({name: (total, count) for name, total, count in own_inputs()["totals"]}))
        dist.barrier = lambda: None
    return means.pop(0)


def at_a_barrier_of_its_own(totals, barriers=[]):
    """As many barriers as expected, in the calls and not between them."""
    if barriers:
        barriers[0]()
    else:
        barriers.append(dist.barrier)
        dist.barrier = lambda: None
    return summed(totals)


class Later(dict):
    """Empty, until somebody looks."""

    def keys(self):
        self.update(self.made())
        return super().keys()


def filled_when_somebody_looks(totals):
    later = Later()
    later.made = lambda: own_means(totals)
    return later


def through_the_store(totals, calls=[]):
    store, rank, world = dist.distributed_c10d._get_default_store(), dist.get_rank(), dist.get_world_size()
    calls.append(1)
    store.set(f"{len(calls)}/{rank}", repr([[name, float(total), count] for name, (total, count) in totals.items()]))
    everyones = [eval(store.get(f"{len(calls)}/{other}"), {"nan": math.nan, "inf": math.inf}) for other in range(world)]
    sums = {
        name: [sum(one[place] for own in everyones for one in own if one[0] == name) for place in (1, 2)]
        for name in totals
    }
    return {name: total / count if count else math.nan for name, (total, count) in sums.items()}


AT_REDUCE_METRICS = {
    "its own means, behind the right collective": an_honest_collective_of(
        lambda totals: [float(number) for name in sorted(totals) for number in totals[name]]
    ),
    "every number": lambda totals: dict.fromkeys(totals, Agreeable()),
    "memory that is shared": shared_between,
    "all calls in the first": all_in_the_first_call,
}
AT_REDUCE_METRICS_TOO = {
    "its own means": own_means,
    "its own means, behind a collective of nothing": an_honest_collective_of(lambda totals: [0.0, 0.0] * len(totals)),
    "no number": lambda totals: dict.fromkeys(totals, math.nan),
    "every name": lambda totals: EveryName(),
    "nothing": lambda totals: {},
    "the totals themselves": lambda totals: totals,
    "what the referee has for others": asks_for_the_others,
    "a dictionary that is filled later": filled_when_somebody_looks,
    "the store": through_the_store,
    "the hidden test's barriers in the calls": at_a_barrier_of_its_own,
}


@sentinels_and_others(AT_REDUCE_METRICS, AT_REDUCE_METRICS_TOO)
def test_a_cheat_at_reduce_metrics_earns_nothing(cheats):
    assert {what: score("reduce_metrics", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class EveryPosition(int):
    """A position that is every position."""

    __eq__ = lambda self, other: True
    __hash__ = int.__hash__


class Everybody(list):
    """Ranks that are any ranks."""

    __eq__ = lambda self, other: True


def refuse(logs):
    raise ValueError("no")


def first_ended(logs):
    index = min(map(len, logs))
    ended = [rank for rank, log in enumerate(logs) if len(log) == index]
    return {"index": index, "culprits": ended, "lines": dict.fromkeys(range(len(logs)))}


def first_of_all(logs):
    return {"index": 0, "culprits": [0], "lines": {rank: log[0]["line"] for rank, log in enumerate(logs)}}


def test_a_cheat_at_find_desync_earns_nothing():
    cheats = {
        "nothing": lambda logs: None,
        "everything refused": refuse,
        "no logs are left": lambda logs: logs.clear(),
        "all logs are made alike": lambda logs: [log.__setitem__(slice(None), logs[0]) for log in logs] and None,
        "every position": lambda logs: {"index": EveryPosition(), "culprits": Everybody(), "lines": {}},
        "the first position": first_of_all,
        "the shortest log": first_ended,
        "all positions": lambda logs: {"index": list(range(99)), "culprits": list(range(len(logs))), "lines": {}},
    }
    assert {what: score("find_desync", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
