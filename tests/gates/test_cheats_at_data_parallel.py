"""Answers to chapter "Data parallelism in depth" that were not earned: each earns nothing."""

import torch
import torch.distributed as dist

from autograder.draw import Draw
from autograder.proctor import sit
from autograder.referee import judge_here
from autograder.scenarios.ranks import own_inputs


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"data_parallel.{exercise}"
    return judge_here(name, lambda inputs: sit(name, {exercise: function}, inputs), Draw(seed)).score


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
            parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(torch.zeros(p.numel()), async_op=True))
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


def test_a_cheat_at_mini_ddp_earns_nothing():
    cheats = {
        "nothing": lambda model, bucket_bytes: lambda: None,
        "no function": lambda model, bucket_bytes: broadcast(model),
        "a function that refuses": lambda model, bucket_bytes: {}.pop,
        "frozen parameters": frozen,
        "gradients of zero": gradients_of_zero,
        "noise in time": noise_in_time,
        "everything before": everything_before,
        "no backward pass": no_backward_pass,
        "gradients of None": lambda model, bucket_bytes: lambda: model.zero_grad(),
    }
    assert {what: score("mini_ddp", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_best_bucket_earns_nothing():
    cheats = {
        # WRITE(best_bucket): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("best_bucket", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_epoch_indices_earns_nothing():
    cheats = {
        # WRITE(epoch_indices): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("epoch_indices", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_reduce_metrics_earns_nothing():
    cheats = {
        # WRITE(reduce_metrics): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("reduce_metrics", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_find_desync_earns_nothing():
    cheats = {
        # WRITE(find_desync): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("find_desync", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
