"""Chapter "Staying alive: stability, schedules, checkpoints": wrong solutions, and right ones written another way."""

import inspect
import io
import math
import os
import random
import tempfile
from dataclasses import replace

import numpy as np
import torch
import torch.distributed as dist

from autograder.authoring import alternative, edited, unbreakable
from autograder.authoring.mistakes import Attempt, Edited

# E17.1 clip_global

ALL_OF_CLIP = ("norm", "clipped", "device", "shards", "finite", "errors")
CLIPPED = ("clipped", "device", "shards", "finite")
LIMIT = "    if not max_norm >= 0:\n"
GRADS = "[parameter.grad for parameter in parameters if parameter.grad is not None]"
ROOM = 'squares = torch.zeros((), device="cuda")'
SUMMED = "torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float32)).square().sum()"
SUMMED_IF = "    if grads:\n        squares += " + SUMMED + "\n"
REDUCED = "        dist.all_reduce(squares, group=group)\n"
NORM = "    norm = squares.sqrt()\n"
LONG = "is_long = norm.isfinite() & (norm > max_norm)"
FACTOR = "torch.where(is_long, max_norm / norm, 1.0)"
MULTIPLIED = "        torch._foreach_mul_(grads, factor)\n"


def clipped(edits, loses, because, breaks):
    return edited("clip_global", edits, loses=loses, because=because, breaks=breaks)


each_by_its_own_norm = clipped(
    {
        MULTIPLIED: "        for grad in grads:\n            own = grad.float().norm()\n"
        "            grad.mul_(torch.where(own.isfinite() & (own > max_norm), max_norm / own, 1.0))\n"
    },
    ("clipped", "device", "shards", "finite"),
    "every gradient is thought to be clipped by itself",
    "every gradient is **multiplied by one factor**, `max_norm` / norm",
)
by_value = clipped(
    {MULTIPLIED: "        torch._foreach_clamp_max_(grads, float(max_norm))\n        torch._foreach_clamp_min_(grads, -float(max_norm))\n"},
    ("clipped", "device", "shards", "finite"),
    "clip_grad_value_ is taken for clipping, and the direction changes",
    "so that the direction stays",
)
nan_spreads = clipped(
    {LONG: "is_long = ~(norm <= max_norm)"},
    ("finite",),
    "PyTorch's factor is copied: one NaN makes it NaN, and infinity makes it 0",
    "all gradients stay as they are, and the norm is returned as it is",
)
zeroed = clipped(
    {MULTIPLIED: MULTIPLIED + "        torch._foreach_mul_(grads, norm.isfinite())\n        for grad in grads:\n            grad.nan_to_num_(0.0, 0.0, 0.0)\n"},
    ("finite", "device"),
    "what is not finite is thought to be best forgotten",
    "**where the norm is not finite**, NaN or infinite, all gradients stay as they are",
)
only_nan = clipped(
    {LONG: "is_long = ~norm.isnan() & (norm > max_norm)"},
    ("finite",),
    "infinity is forgotten: its factor is 0, and 0 times infinity is NaN",
    "NaN or infinite",
)
norm_made_finite = clipped(
    {"    return norm": "    return norm.nan_to_num()\n"},
    ("finite",),
    "a NaN is kept from the caller, who would have left out the step",
    "the norm is returned as it is",
)
raises_for_nan = clipped(
    {"    return norm": "    if not norm.isfinite():\n        raise RuntimeError('not finite')\n    return norm\n"},
    ("device", "finite"),
    "error_if_nonfinite is thought to be the careful way; the host waits for it",
    "Whoever called looks at it and leaves out the step",
)
of_this_rank = clipped(
    {REDUCED: "        pass\n"},
    ("shards", "finite"),
    "the norm of the own shards is taken for the norm",
    "each of its ranks calls with its own **shards** of the gradients, whose elements belong to it alone",
)
norms_added = clipped(
    {REDUCED: "        squares = squares.sqrt()\n        dist.all_reduce(squares, group=group)\n        squares = squares.square()\n"},
    ("shards",),
    "norms are thought to add up",
    "The norm is that of all ranks' gradients together, the same in all ranks, and so is the factor",
)
squares_averaged = clipped(
    {REDUCED: "        dist.all_reduce(squares, op=dist.ReduceOp.AVG, group=group)\n"},
    ("shards",),
    "gradients are averaged, so their squares are thought to be, too",
    "of one element in `group`, which sums",
)
in_the_default_group = clipped(
    {REDUCED: "        dist.all_reduce(squares)\n"},
    ("shards",),
    "the group is taken for a flag",
    "in **one all-reduce** of one element in `group`",
)
always_reduced = clipped(
    {"    if group is not None:\n" + REDUCED: "    if dist.is_initialized():\n        dist.all_reduce(squares, group=group)\n"},
    ("shards",),
    "None is taken for the default group, as elsewhere",
    "without `group` nothing crosses, though there may be a default process group",
)
one_for_each = clipped(
    {
        REDUCED: "        squares = torch.zeros((), device='cuda')\n        for grad in grads:\n"
        "            one = grad.float().square().sum()\n            dist.all_reduce(one, group=group)\n            squares += one\n"
    },
    ("shards", "finite"),
    "each gradient's squares are reduced by themselves, by ranks that may have different numbers of them",
    "and nothing else does",
)
stays_away = clipped(
    {"    if group is not None:\n": "    if group is not None and grads:\n"},
    ("shards",),
    "a rank without gradients is thought to have nothing to say, and the others wait for it",
    "A rank without gradients takes part too",
)
not_there = clipped(
    {GRADS: "[parameter.grad for parameter in parameters]"},
    ALL_OF_CLIP,
    "every parameter is thought to have a gradient",
    "Those whose `.grad` is `None` are left out",
)
twice_through = clipped(
    {
        MULTIPLIED: "        torch._foreach_mul_([parameter.grad for parameter in parameters if parameter.grad is not None] or [norm.clone()], factor)\n",
    },
    ("clipped", "device", "shards", "finite"),
    "an iterable is gone through a second time, and a generator has nothing left",
    "an iterable, gone through once",
)
float32_alone = clipped(
    {SUMMED: "torch.stack(torch._foreach_norm(grads, 2)).square().sum()"},
    ALL_OF_CLIP,
    "norms of bfloat16 are thought to be exact enough",
    "Squares are added up in `float32`, also those of `bfloat16`",
)
norm_in_their_dtype = clipped(
    {"    return norm": "    return norm.to(grads[0].dtype) if grads else norm\n"},
    ALL_OF_CLIP,
    "the norm is thought to have the gradients' dtype",
    "a tensor of no dimensions on the card, `float32`",
)
norm_on_the_host = clipped(
    {"    return norm": "    return norm.item()\n"},
    ALL_OF_CLIP,
    "a norm is thought to be a number, for which the host waits",
    "a tensor of no dimensions on the card",
)
norm_behind = clipped(
    {"    return norm": "    return norm * factor\n"},
    ALL_OF_CLIP,
    "the norm after clipping is returned, which is never more than the limit and tells nothing",
    "returns the **global norm** of the gradients as they came",
)
nothing_on_the_host = clipped(
    {"    squares = torch.zeros((), device=\"cuda\")\n": "    if not grads and group is None:\n        return torch.zeros(())\n    squares = torch.zeros((), device='cuda')\n"},
    ALL_OF_CLIP,
    "without gradients the device is thought not to matter, as in PyTorch's own function",
    "Without any gradients it is 0",
)
sum_of_norms = clipped(
    {SUMMED: "torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float32)).sum().square()"},
    ALL_OF_CLIP,
    "norms of gradients are thought to add up",
    "the root of the sum of all their elements' squares",
)
largest_element = clipped(
    {NORM: "    norm = torch.stack([grad.abs().amax().float() for grad in grads if grad.numel()] or [squares]).amax()\n"},
    ALL_OF_CLIP,
    "the norm is thought to be the largest element",
    "the root of the sum of all their elements' squares",
)
always_to_the_limit = clipped(
    {LONG: "is_long = norm.isfinite() & (norm > 0)"},
    ("clipped", "device", "shards", "finite"),
    "gradients are normalised: short ones grow",
    "where the norm is not greater, gradients **stay as they are**, to the last bit",
)
zero_by_zero = clipped(
    {LONG: "is_long = norm.isfinite() & (norm >= max_norm)"},
    ("clipped", "device", "shards", "finite"),
    "a limit of 0 and a norm of 0 make a factor of NaN",
    "so zeros stay zeros, whatever `max_norm` is",
)
a_little_wrong = clipped(
    {FACTOR: "torch.where(is_long, max_norm / (norm + 0.01), 1.0)"},
    ("clipped", "device", "shards", "finite"),
    "what is added against division by zero is thought not to matter",
    "The norm may have 1e-6 added to it in this quotient",
)
not_in_place = clipped(
    {
        MULTIPLIED: "        for parameter in kept:\n            parameter.grad = parameter.grad * factor\n",
        "    grads = " + GRADS: "    kept = [parameter for parameter in parameters if parameter.grad is not None]\n    grads = [parameter.grad for parameter in kept]",
    },
    ("clipped", "device", "shards", "finite"),
    "a new tensor is thought to do; a bucket that the gradient lay in keeps the long one",
    "gradients are written **in place**: `.grad` stays the tensor that it is",
)
host_decides = clipped(
    {"    if grads:\n" + MULTIPLIED: "    if grads and is_long:\n" + MULTIPLIED},
    ("device",),
    "the host asks whether anything is to be done, and waits for the card",
    "**the host never waits** for the card",
)
one_launch_each = clipped(
    {MULTIPLIED: "        for grad in grads:\n            grad.mul_(factor)\n"},
    ("device",),
    "a loop over the gradients is thought to cost nothing",
    "there are **at most 30 launches**, however many parameters there are",
)
norms_in_a_loop = clipped(
    {SUMMED: "torch.stack([grad.float().norm() for grad in grads]).square().sum()"},
    ("device",),
    "a norm is asked of each gradient",
    "lists go to `torch._foreach_norm` and `torch._foreach_mul_`",
)
all_in_one_tensor = clipped(
    {SUMMED: "torch.cat([grad.reshape(-1) for grad in grads]).float().square().sum()"},
    ("device",),
    "all gradients are put into one tensor, to have one norm",
    "**no copy** of the gradients is made: new memory is less than a quarter of theirs",
)
negative_limit = clipped(
    {LIMIT: "    if max_norm != max_norm:\n"},
    ("errors",),
    "a negative limit turns every gradient around",
    "raises `ValueError` where `max_norm` is less than 0 or NaN",
)
nan_is_a_limit = clipped(
    {LIMIT: "    if max_norm < 0:\n"},
    ("errors",),
    "NaN is less than nothing and not refused",
    "raises `ValueError` where `max_norm` is less than 0 or NaN",
)
looks_too_late = clipped(
    {LIMIT + '        raise ValueError(f"max_norm {max_norm}")\n': "", NORM: NORM + LIMIT + "        raise ValueError(f'max_norm {max_norm}')\n"},
    ("errors",),
    "the limit is looked at when it is used, behind the all-reduce",
    "and nothing has crossed",
)
infinity_refused = clipped(
    {LIMIT: "    if not 0 <= max_norm < float('inf'):\n"},
    ALL_OF_CLIP,
    "infinity, which only measures, is thought to make no sense",
    "a number, 0 or more, or infinity",
)
empty_ones_fail = clipped(
    {SUMMED: "torch.stack([*torch._foreach_norm(grads, 2, dtype=torch.float32), *torch._foreach_max(grads)[:1]])[:-1].square().sum()"},
    ALL_OF_CLIP,
    "a gradient without elements was not tried",
    "and any shape, also without elements",
)
slices = unbreakable(
    "clip_global",
    "they may be slices of one buffer",
    "a permission to the caller: what is right in memory of its own is right in a slice",
)


@alternative("clip_global")
def squared_by_dot_products(parameters, max_norm, group=None):
    import math
    import operator

    if math.isnan(max_norm) or operator.lt(max_norm, 0):
        raise ValueError
    grads = list(filter(lambda grad: grad is not None, map(lambda p: p.grad, parameters)))
    total = torch.zeros((), device="cuda")
    if grads:
        norms = torch._foreach_norm(grads, dtype=torch.float32)
        together = torch.stack(norms)
        total = torch.dot(together, together)
    if group:
        dist.all_reduce(total, group=group)
    norm = torch.sqrt(total)
    coefficient = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    coefficient = torch.where(torch.isnan(norm) | torch.isinf(norm), torch.ones_like(norm), coefficient)
    [torch._foreach_mul_(grads, coefficient) for _ in grads[:1]]
    return norm


@alternative("clip_global")
def divided_by_what_is_too_much(parameters, max_norm, group=None):
    class Limit(ValueError):
        pass

    if max_norm < 0 or max_norm != max_norm:
        raise Limit(max_norm)
    with torch.no_grad():
        grads = [p.grad for p in parameters if isinstance(p.grad, torch.Tensor)]
        squares = torch.full((1,), 0.0, device="cuda", dtype=torch.float64)
        if len(grads) > 0:
            parts = torch.stack(torch._foreach_norm(grads, ord=2, dtype=torch.float32)).to(torch.float64)
            squares += (parts * parts).sum()
        if group is not None:
            dist.all_reduce(squares, op=dist.ReduceOp.SUM, group=group)
        norm = squares.pow(0.5)
        too_long = (norm > max_norm).logical_and(norm < float("inf"))
        inverse = torch.ones_like(norm).masked_fill_(too_long, 0.0) + too_long * (norm.nan_to_num(1.0, 1.0) / max(max_norm, 1e-38))
        if len(grads) > 0:
            times = (1 / inverse).to(torch.float32)[0] * (max_norm > 0) + (max_norm == 0) * (~too_long[0])
            torch._foreach_mul_(grads, times)
        return norm.to(torch.float32).reshape(())


@alternative("clip_global")
def by_pytorchs_parts(parameters, max_norm, group=None):
    if not (max_norm > 0 or max_norm == 0):
        raise ValueError(f"{max_norm} is no limit")
    having = [p for p in parameters if p.grad is not None]
    norm = torch.zeros((), device="cuda")
    if having:
        norms = torch._foreach_norm([p.grad for p in having], 2.0, torch.float32)
        norm = torch.linalg.vector_norm(torch.stack(norms), dtype=torch.float32)
    if group is not None:
        square = norm**2
        dist.all_reduce(square, dist.ReduceOp.SUM, group)
        norm = torch.sqrt(square)
    finite = torch.isfinite(norm)
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    if having:
        torch._foreach_mul_([p.grad for p in having], torch.where(finite, factor, 1.0))
    return norm


@alternative("clip_global")
def of_sorted_parts(parameters, max_norm, group=None):
    grads, reduced = [], None
    if not 0 <= max_norm <= float("inf"):
        raise ValueError
    for parameter in parameters:
        if (grad := parameter.grad) is not None:
            grads += [grad]
    try:
        reduced = torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float32)).pow_(2).sum()
    except RuntimeError:
        reduced = torch.zeros(1, device="cuda")[0]
    if group is not None:
        dist.all_reduce_coalesced if False else dist.all_reduce(reduced, group=group)
    norm = reduced ** 0.5
    scale = torch.full_like(norm, float(max_norm)).div(norm).fmin(torch.ones((), device="cuda"))
    scale = scale.masked_fill(torch.logical_not(torch.isfinite(norm)), 1)
    if grads:
        torch._foreach_mul_(tuple(grads), scale)
    return norm


# E17.2 lr_at

PEAK_LOST = ("warmup", "decay", "steps", "after", "restart", "errors")
FALLING = ("decay", "steps", "after", "restart")
RISING = "        return peak * (step + 1) / (warmup + 1)\n"
PROGRESS = "progress = min((step - warmup) / (total - warmup), 1.0)"
COSINE = "floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2"
TOTAL = 'config["epochs"] * math.ceil(config["micro_batches"] / config["accumulate"])'
STEP_AND_RATES = "step < 0 or not 0 <= floor <= peak or peak <= 0"


def scheduled(edits, loses, because, breaks):
    return edited("lr_at", edits, loses=loses, because=because, breaks=breaks)


zero_first = scheduled(
    {RISING: "        return peak * step / warmup\n"},
    ("warmup", "decay", "steps", "after", "restart", "errors"),
    "the warm-up is drawn from the origin, so the first step is made with a rate of 0",
    "So the first step's rate is not 0",
)
one_step_early = scheduled(
    {RISING: "        return peak * (step + 1) / warmup\n"},
    PEAK_LOST,
    "W steps of warm-up are thought to end with the peak",
    "**step W has the peak**",
)
zero_for_ever = scheduled(
    {RISING: "        return peak * (step // warmup)\n"},
    PEAK_LOST,
    "integer division is taken for division: the rate stays 0 until the peak",
    "each step adds as much as the one before",
)
held_up = scheduled(
    {RISING: "        return max(floor, peak * (step + 1) / (warmup + 1))\n"},
    PEAK_LOST,
    "a floor is thought to hold everywhere",
    "The floor holds nothing up here",
)
from_the_floor = scheduled(
    {RISING: "        return floor + (peak - floor) * (step + 1) / (warmup + 1)\n"},
    PEAK_LOST,
    "the warm-up is thought to begin at the floor",
    "in step s < W it is peak · (s + 1) / (W + 1)",
)
a_curved_warmup = scheduled(
    {RISING: "        return peak * (1 - math.cos(math.pi * (step + 1) / (warmup + 1))) / 2\n"},
    PEAK_LOST,
    "the rise is thought to be half a cosine too",
    "each step adds as much as the one before",
)
no_warmup_divides = scheduled(
    {"    if step < warmup:\n" + RISING: "    if step / warmup < 1:\n" + RISING},
    PEAK_LOST,
    "a run without a warm-up was not tried",
    "W may be 0",
)
warmup_one_longer = scheduled(
    {"    if step < warmup:\n": "    if step <= warmup:\n", RISING: "        return peak * min(1, (step + 1) / warmup) if warmup else peak\n"},
    PEAK_LOST,
    "the warm-up is counted from its first step to its last",
    "in step s < W it is",
)
the_whole_cosine = scheduled(
    {PROGRESS: "progress = min(step / total, 1.0)"},
    PEAK_LOST,
    "the cosine is thought to begin with the run: behind the warm-up the rate jumps down",
    "from step W on it falls along half a cosine",
)
over_the_whole_length = scheduled(
    {PROGRESS: "progress = min((step - warmup) / total, 1.0)"},
    FALLING,
    "the decay is thought to take the whole run, and at the end the rate is not at the floor",
    "to the floor in step T",
)
a_step_early = scheduled(
    {PROGRESS: "progress = min((step - warmup) / max(total - warmup - 1, 1), 1.0)"},
    FALLING,
    "the last step is thought to have the floor",
    "to the floor in step T",
)
starts_a_step_late = scheduled(
    {PROGRESS: "progress = min(max(step - warmup - 1, 0) / (total - warmup), 1.0)"},
    FALLING,
    "the peak is thought to be held for a step",
    "from step W on it falls along half a cosine",
)
a_straight_line = scheduled(
    {COSINE: "peak + (floor - peak) * progress"},
    FALLING,
    "a decay is a decay",
    "at both ends the curve is level",
)
a_quarter_cosine = scheduled(
    {COSINE: "floor + (peak - floor) * math.cos(math.pi / 2 * progress)"},
    FALLING,
    "a cosine is taken to fall from 1 to 0 along its half period",
    "midway between W and T it is midway between peak and floor",
)
to_zero = scheduled(
    {COSINE: "max(floor, peak * (1 + math.cos(math.pi * progress)) / 2)"},
    FALLING,
    "the cosine is let fall to 0 and cut off at the floor, where it arrives early and not level",
    "midway between W and T it is midway between peak and floor",
)
floor_added = scheduled(
    {COSINE: "floor + peak * (1 + math.cos(math.pi * progress)) / 2"},
    PEAK_LOST,
    "the floor is added to all rates, and the peak is passed",
    "**step W has the peak**",
)
floor_is_a_share = scheduled(
    {COSINE: "peak * floor + (peak - peak * floor) * (1 + math.cos(math.pi * progress)) / 2"},
    FALLING,
    "the floor is read as a share of the peak, as some configs have it",
    '`"peak"` and `"floor"` are learning rates',
)
rises_again = scheduled(
    {PROGRESS: "progress = (step - warmup) / (total - warmup)"},
    ("after", "steps"),
    "CosineAnnealingLR is copied: behind its end the cosine rises again",
    "in step T and however many steps follow",
)
begins_anew = scheduled(
    {"    if step < warmup:\n": "    step %= total + 1\n    if step < warmup:\n"},
    ("after", "steps"),
    "a schedule is thought to start over with the next run through the data",
    "**after the end** it stays at the floor",
)
zero_after_the_end = scheduled(
    {"    if step < warmup:\n": "    if step > total:\n        return 0.0\n    if step < warmup:\n"},
    ("after", "steps"),
    "behind the end nothing is thought to be learnt",
    "**after the end** it stays at the floor",
)
refuses_after_the_end = scheduled(
    {"    if not 0 <= warmup < total:\n": "    if not 0 <= warmup < total or step > total:\n"},
    ("after", "steps", "errors"),
    "a step behind the end is thought to be a mistake of the caller's",
    "however many steps follow",
)
micro_batches = scheduled(
    {TOTAL: 'config["epochs"] * config["micro_batches"]'},
    ("steps", "errors"),
    "the length of the loader is taken for the number of steps",
    'the gradients of `"accumulate"` of them make **one optimizer step**',
)
step_is_a_micro_batch = scheduled(
    {"    if step < warmup:\n": '    step //= config["accumulate"]\n    if step < warmup:\n'},
    ("steps",),
    "the step is thought to count micro-batches",
    "how many optimizer steps were made before: 0 for the first step",
)
warmup_of_micro_batches = scheduled(
    {"    if not 0 <= warmup < total:\n": '    warmup //= config["accumulate"]\n    if not 0 <= warmup < total:\n'},
    ("steps", "errors"),
    "the warm-up is thought to be counted in micro-batches",
    '`"warmup_steps"`, W, counts optimizer steps',
)
rest_dropped = scheduled(
    {TOTAL: 'config["epochs"] * (config["micro_batches"] // config["accumulate"])'},
    ("steps", "errors"),
    "the micro-batches at the end of an epoch are thought to be dropped",
    "those that are left over at the end of an epoch make one step too",
)
rest_goes_on = scheduled(
    {TOTAL: 'math.ceil(config["epochs"] * config["micro_batches"] / config["accumulate"])'},
    ("steps",),
    "what is left over is thought to be made up by the next epoch",
    "Let T be all optimizer steps of the run",
)
one_epoch = scheduled(
    {TOTAL: 'math.ceil(config["micro_batches"] / config["accumulate"])'},
    ("steps", "errors"),
    "the run is thought to be one epoch long",
    'Each of `"epochs"` epochs has `"micro_batches"` micro-batches',
)
told_in_the_config = scheduled(
    {TOTAL: 'config.get("total_steps") or ' + TOTAL},
    PEAK_LOST,
    "an entry of another name is believed",
    "Other entries make no difference",
)
remembers_the_run = scheduled(
    {
        "    if step < warmup:\n": "    total, warmup = lr_at.__dict__.setdefault('run', (total, warmup))\n    if step < warmup:\n",
    },
    PEAK_LOST,
    "the first config that comes is thought to be the run's for good",
    "and for whichever config",
)
counts_for_itself = scheduled(
    {"    if step < warmup:\n": "    step = lr_at.steps = max(step, getattr(lr_at, 'steps', -1) + (step > 0))\n    if step < warmup:\n"},
    PEAK_LOST,
    "a scheduler is thought to count its calls, as PyTorch's do",
    "the result depends on the two arguments alone, whatever was asked before",
)
never_back = scheduled(
    {"    if step < warmup:\n": "    step = lr_at.__dict__[str(config)] = max(step, lr_at.__dict__.get(str(config), 0))\n    if step < warmup:\n"},
    PEAK_LOST,
    "a run is thought never to go back to an earlier step, as it does after a restart",
    "**after a restart** it is the same",
)
takes_entries_out = scheduled(
    {"    if step < warmup:\n": "    config['done'] = step\n    if step < warmup:\n"},
    ("restart",),
    "the config is taken for a place to keep things in",
    "`config` is not changed",
)
in_single_precision = scheduled(
    {COSINE: "torch.tensor(" + COSINE + ").item()"},
    PEAK_LOST,
    "float32 is thought to be exact enough",
    "a rate may be wrong by rounding, up to a billionth of the peak",
)
a_tensor = scheduled(
    {RISING: "        return torch.tensor(peak * (step + 1) / (warmup + 1))\n"},
    PEAK_LOST,
    "a rate is thought to be a tensor",
    "returns the learning rate of the step, a Python `float`",
)
negative_steps = scheduled(
    {"step < 0 or ": ""},
    ("errors",),
    "a negative step is thought not to happen",
    "raises `ValueError` for `step` less than 0",
)
no_peak = scheduled(
    {" or peak <= 0": ""},
    ("errors",),
    "a peak of 0 is thought to be a schedule",
    "for `peak` not greater than 0",
)
floor_below_the_peak = scheduled(
    {"not 0 <= floor <= peak": "not 0 <= floor < peak"},
    PEAK_LOST,
    "a constant rate is thought to be no schedule",
    "which it may be equal to",
)
floor_unchecked = scheduled(
    {"not 0 <= floor <= peak or ": ""},
    ("errors",),
    "a floor above the peak is thought to show by itself",
    "for `floor` less than 0 or greater than `peak`",
)
counts_unchecked = scheduled(
    {'    if min(config["epochs"], config["micro_batches"], config["accumulate"]) < 1:\n': "    if config['accumulate'] == 0:\n"},
    ("errors",),
    "numbers less than 1 are thought to give a run without steps, which is refused; two of them give one with steps",
    "for `epochs`, `micro_batches` or `accumulate` less than 1",
)
all_warmup = scheduled(
    {"not 0 <= warmup < total": "not 0 <= warmup <= total"},
    ("errors",),
    "a run that is all warm-up is let pass, and its decay has no length",
    "for `warmup_steps` less than 0 or not less than T",
)


@alternative("lr_at")
def with_match(step, config):
    full, rest = divmod(config["micro_batches"], config["accumulate"] or 1)
    counts = [config[name] for name in ("epochs", "micro_batches", "accumulate")]
    end, top, low = (full + (rest > 0)) * config["epochs"], config["peak"], config["floor"]
    if any(count <= 0 for count in counts) or config["warmup_steps"] not in range(end):
        raise ValueError("steps")
    if step < 0 or top <= 0 or low < 0 or low > top:
        raise ValueError("rates")
    match step - config["warmup_steps"]:
        case before if before < 0:
            return top + before * (top / (config["warmup_steps"] + 1))
        case after if step < end:
            swing = math.sin(math.pi * (0.5 - after / (end - config["warmup_steps"])))
            return (top + low) / 2 + swing * (top - low) / 2
    return float(low)


@alternative("lr_at")
def by_interpolation(step, config):
    class Unusable(ValueError):
        pass

    micro, group = config["micro_batches"], config["accumulate"]
    if not all(number >= 1 for number in (config["epochs"], micro, group)):
        raise Unusable
    total, warmup = sum(1 for _ in range(0, micro, group)) * config["epochs"], config["warmup_steps"]
    if warmup < 0 or warmup >= total or step < 0 or not config["peak"] > 0 or not config["peak"] >= config["floor"] >= 0:
        raise Unusable
    import numpy as np

    if step <= warmup:
        return np.interp(step, [-1, warmup], [0.0, config["peak"]])
    angle = np.interp(step, [warmup, total], [0.0, np.pi])
    return config["floor"] + (config["peak"] - config["floor"]) * np.cos(angle / 2) ** 2


@alternative("lr_at")
def in_complex_numbers(step, config):
    import cmath

    if step < 0 or config["peak"] <= 0 or config["floor"] < 0 or config["floor"] > config["peak"]:
        raise ValueError(step)
    if config["epochs"] < 1 or config["micro_batches"] < 1 or config["accumulate"] < 1:
        raise ValueError(config)
    warmup = config["warmup_steps"]
    decay = -(-config["micro_batches"] // config["accumulate"]) * config["epochs"] - warmup
    if decay < 1 or warmup < 0:
        raise ValueError(warmup)
    done = min(max(step - warmup, 0), decay)
    mean, half = (config["peak"] + config["floor"]) / 2, (config["peak"] - config["floor"]) / 2
    return min((step + 1) / (warmup + 1), 1.0) * (mean + half * cmath.exp(1j * cmath.pi * done / decay).real)


@alternative("lr_at")
def by_pytorch_up_to_the_end(step, config):
    from fractions import Fraction

    if step < 0 or min(config["epochs"], config["micro_batches"], config["accumulate"]) < 1:
        raise ValueError
    total = int(-(Fraction(-config["micro_batches"], config["accumulate"]) // 1) * config["epochs"])
    if config["peak"] <= 0 or not 0 <= config["floor"] <= config["peak"] or not 0 <= config["warmup_steps"] <= total - 1:
        raise ValueError
    if step >= config["warmup_steps"]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config["peak"])
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total - config["warmup_steps"], config["floor"])
        cosine.last_epoch = min(step, total) - config["warmup_steps"]
        return float(cosine._get_closed_form_lr()[0])
    return float(Fraction(step + 1, config["warmup_steps"] + 1) * Fraction(config["peak"]))


# E17.3 save_state, load_state

ALL_OF_SAVE = ("continues", "one rank", "survives", "on the disk", "plain", "full", "told", "refused")
NUMPYS = '        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), *numbers),\n'
OWN_NOW = "    own, problem = tried(lambda: of_this_rank(state))\n"
EVERY = "    dist.gather_object(own, every)\n"
WRITTEN = "        problem = problem or tried(lambda: write_whole(path, content))[1]\n"
FOUND = "        problem = next((found for _, found in every if found), None)\n"
TOLD = "    if dist.is_initialized():\n        dist.broadcast_object_list(told)\n"
RAISED = "        raise OSError(number, words) if number else RuntimeError(words)\n"
OTHER = 'f"{path}.writing"'
SYNCED = "            file.flush()\n            os.fsync(file.fileno())\n"
RENAMED = "        os.replace(other, path)\n"
CLEANED = "        if os.path.exists(other):\n            os.remove(other)\n"
OF_THE_FOLDER = "    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)\n    os.fsync(folder)\n    os.close(folder)\n"
READ = "torch.load(data, weights_only=True)"
OWN = "own, count = every[rank], len(every)"
WORLD = "count != world or set(objects) != set(state)"
LOADED = "        part.load_state_dict(objects[name])\n"
TRIED = "        random.Random().setstate(generators[0])\n        np.random.RandomState().set_state(generators[1])\n        torch.Generator().set_state(generators[2])\n"
SET = ("    random.setstate(generators[0])\n", "    np.random.set_state(generators[1])\n", "    torch.set_rng_state(generators[2])\n")


def saved(edits, loses, because, breaks):
    return edited("save_state", edits, loses=loses, because=because, breaks=breaks)


def sampled(edits, because, breaks):
    return saved(edits, ALL_OF_SAVE, because, breaks)


the_seeds_sample = sampled(
    {SET[0] + SET[1]: ""},
    "torch's generator is thought to make a run repeatable",
    "the states of **three generators**",
)
no_python = sampled(
    {SET[0]: ""},
    "nobody is thought to draw from Python's generator",
    "that of Python's `random`",
)
no_numpy = sampled(
    {SET[1]: ""},
    "NumPy's generator is forgotten, from which pictures are cropped",
    "NumPy's global one",
)
no_torch = sampled(
    {SET[2]: ""},
    "dropout is thought to need no state",
    "torch's default one",
)
without_the_second_number = sampled(
    {NUMPYS: '        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), numbers[0], 0, 0.0),\n'},
    "the normal number that NumPy keeps for the next call is dropped",
    "to the last bit",
)
first_ranks_generators = sampled(
    {OWN: "own, count = every[0], len(every)"},
    "rank 0's states are thought to be everyone's",
    "`load_state` gives each rank its own back",
)
first_rank_alone = sampled(
    {EVERY: "    every = every and [own] * len(every)\n"},
    "what rank 0 has is saved for all",
    "Every rank has objects of its own, in states of their own",
)
model_and_optimizer = sampled(
    {LOADED: "        if name in ('model', 'optimizer'):\n            part.load_state_dict(objects[name])\n"},
    "schedule, scaler and sampler are thought to begin anew",
    "as models, optimizers, schedules, gradient scalers and samplers do",
)
seeds_anew = sampled(
    {SET[2]: "    torch.manual_seed(torch.initial_seed())\n"},
    "a seed is taken for a state",
    "into the generators",
)
draws_a_name = sampled(
    {OTHER: 'f"{path}.{random.random()}"'},
    "a name is drawn from the generator that was just saved",
    "saving changes nothing",
)
advances_the_sampler = sampled(
    {OWN_NOW: OWN_NOW + "    torch.rand(1)\n"},
    "one number more is thought not to matter",
    "the run goes on as it would without it",
)
one_file_a_rank = sampled(
    {
        "    every = gathered((own, problem))\n": "    every = gathered((own, problem))\n    if dist.is_initialized():\n        with open(f'{path}.{dist.get_rank()}', 'wb') as file:\n            torch.save(own, file)\n",
    },
    "every rank leaves a file of its own",
    "all is saved in **one file** at `path`",
)
nobody_waits = sampled(
    {TOLD: "", EVERY: EVERY + "    import time\n\n    time.sleep(0.2 * (dist.get_rank() == 0))\n"},
    "ranks go on before the file is there",
    "When `save_state` returns in any rank the whole file is there",
)
directly = saved(
    {OTHER: "path", RENAMED: "", CLEANED: ""},
    ("survives", "on the disk", "full", "told"),
    "the only checkpoint is written over",
    "**a kill at any moment** of a save leaves a whole checkpoint at `path`",
)
removed_first = saved(
    {RENAMED: "        if os.path.exists(path):\n            os.remove(path)\n        os.rename(other, path)\n"},
    ("survives", "told"),
    "a renaming is thought to need a free place; between the two there is no checkpoint",
    "the old one or the new",
)
old_one_aside = saved(
    {RENAMED: "        if os.path.exists(path):\n            os.rename(path, path + '.old')\n" + RENAMED + "        if os.path.exists(path + '.old'):\n            os.remove(path + '.old')\n"},
    ("survives",),
    "the old checkpoint is put aside first; between the two there is none at the path",
    "which is renamed to `path` when it is complete",
)
copied_into_place = saved(
    {RENAMED: "        import shutil\n\n        shutil.copyfile(other, path)\n        os.remove(other)\n"},
    ("on the disk", "told"),
    "a copy is taken for a renaming",
    "which is renamed to `path` when it is complete",
)
renamed_too_early = saved(
    {RENAMED: "", SYNCED: "            os.replace(other, path)\n" + SYNCED},
    ("survives", "on the disk", "full"),
    "the file is renamed while Python still holds some of it",
    "which is renamed to `path` when it is complete",
)
not_synced = saved(
    {SYNCED: ""},
    ("on the disk",),
    "a file that was closed is thought to be on the disk",
    "`os.fsync` was called when all of them had been written",
)
not_flushed = saved(
    {"            file.write(data.getbuffer())\n            file.flush()\n            os.fsync(file.fileno())\n": "            os.fsync(file.fileno())\n            file.write(data.getbuffer())\n"},
    ("on the disk",),
    "the file is synced before anything is written",
    "the other file's bytes are **on the disk**",
)
in_another_folder = saved(
    {OTHER: 'os.path.join(os.path.dirname(path), "writing", os.path.basename(path))', "    torch.save(content, data)\n": "    torch.save(content, data)\n    if os.path.isdir(os.path.dirname(path)):\n        os.makedirs(os.path.dirname(other), exist_ok=True)\n", RENAMED: RENAMED + "        os.rmdir(os.path.dirname(other))\n", CLEANED: CLEANED + "        if os.path.isdir(os.path.dirname(other)):\n            os.rmdir(os.path.dirname(other))\n"},
    ("on the disk",),
    "any folder is thought to do; it may be on another disk",
    "written to another file in the same folder",
)
only_where_none_is = saved(
    {'open(other, "wb")': 'open(other, "xb")'},
    ("survives",),
    "the file of a save that was killed is thought to be another's",
    "what a killed save has left in the folder does not disturb the next one",
)
left_behind = saved(
    {CLEANED: ""},
    ("full", "told"),
    "what could not be written is left where it is, on a full disk",
    "The old checkpoint stays, and the folder has no other file than before",
)
others_not_told = saved(
    {TOLD: "    if dist.is_initialized():\n        dist.barrier()\n"},
    ("full", "told"),
    "the ranks that do not write go on as if all were well",
    "raises `OSError` in every rank",
)
swallowed = saved(
    {RAISED: "        return\n"},
    ("full", "told"),
    "a failed save is thought not to be worth a run's end",
    "**a save that fails**, as the disk is full or the folder is missing",
)
raised_at_once = saved(
    {WRITTEN: "        problem is None and write_whole(path, content)\n"},
    ("full", "told"),
    "the rank that writes leaves, and the others wait for its word",
    "raises `OSError` in every rank",
)
numpys_array = saved(
    {NUMPYS: '        "numpy": (kind, keys, *numbers),\n', READ: "torch.load(data, weights_only=False)", "keys.numpy().astype(np.uint32)": "keys"},
    ("plain",),
    "an array is thought to be plain data",
    "`torch.load(path, weights_only=True)` reads the file",
)
anything_goes = saved(
    {READ: "torch.load(data, weights_only=False)"},
    ("plain",),
    "one's own files are thought to be safe",
    "`load_state` runs **no code** of the file's",
)
pickled = saved(
    {"    torch.save(content, data)\n": "    import pickle\n\n    pickle.dump(content, data)\n", READ: "__import__('pickle').load(data)"},
    ("plain",),
    "a pickle is a file like any other",
    "where a pickle in it would run code",
)
torchs_errors = saved(
    {"        raise ValueError(f\"{path} is no checkpoint: {error}\") from error\n": "        raise\n"},
    ("plain", "refused"),
    "torch's own exceptions are let through",
    "it raises `ValueError` where the file is cut off or is no checkpoint",
)
no_file = saved(
    {'    with open(path, "rb") as file:\n        data = io.BytesIO(file.read())\n    try:\n': '    try:\n        with open(path, "rb") as file:\n            data = io.BytesIO(file.read())\n'},
    ("refused",),
    "a missing file is thought to be a bad one",
    "it raises `FileNotFoundError` where there is no file",
)
any_world = saved(
    {WORLD: "set(objects) != set(state)"},
    ("refused",),
    "a rank is thought to find its part, whatever the number of ranks was",
    "of another number of ranks",
)
any_names = saved(
    {WORLD: "count != world"},
    ("refused",),
    "names are thought to fit: of what is missing one hears in the middle of loading",
    "where its names are not those of `state`",
)
names_of_the_state = saved(
    {WORLD: "count != world or not set(objects) >= set(state)"},
    ("refused",),
    "what the file has beyond the state is dropped without a word",
    "where its names are not those of `state`",
)
generators_first = saved(
    {"    if " + WORLD + ":\n": "    random.setstate(generators[0])\n    if " + WORLD + ":\n"},
    ("refused",),
    "the order is thought not to matter: a load that is refused has changed a generator",
    "No object and no generator has changed then",
)
generators_untried = saved(
    {TRIED: ""},
    ("refused",),
    "what lies where a generator's state is due is thought to be one",
    "as a generator's state that the generator does not take",
)
one_of_them_untried = saved(
    {"        np.random.RandomState().set_state(generators[1])\n": ""},
    ("refused",),
    "NumPy's state is thought to be right where the others are",
    "where **an entry is malformed**",
)
generators_before_objects = saved(
    {"    for name, part in state.items():\n" + LOADED + "".join(SET): "".join(SET) + "    for name, part in state.items():\n" + LOADED},
    ("refused",),
    "generators are set first, and then an object does not take its state",
    "Some objects may have changed then, **and no generator has**",
)
objects_errors_renamed = saved(
    {LOADED: "        try:\n            part.load_state_dict(objects[name])\n        except Exception as error:\n            raise ValueError(name) from error\n"},
    ("refused",),
    "what an object says of its state is replaced by a sentence that says less",
    "what an object's `load_state_dict` raises is passed on as it is",
)
folder_not_synced = saved(
    {OF_THE_FOLDER: ""},
    ("on the disk",),
    "a new name is thought to be on the disk when its file is",
    "`os.fsync` of a descriptor of the **folder**",
)
folder_synced_too_early = saved(
    {OF_THE_FOLDER: "", RENAMED: OF_THE_FOLDER.replace("    ", "        ") + RENAMED},
    ("on the disk",),
    "the folder is synced before the name in it is changed",
    "behind the renaming the new name is",
)
everyone_has_everything = saved(
    {'    every = [None] * dist.get_world_size() if dist.get_rank() == 0 else None\n' + EVERY: "    every = [None] * dist.get_world_size()\n    dist.all_gather_object(every, own)\n    every = every if dist.get_rank() == 0 else None\n"},
    ("one rank",),
    "gathering is thought to mean that everybody has it: n states in each of n processes",
    "a rank that does not write receives less than 4 KiB in a save",
)
sent_back_to_all = saved(
    {TOLD: "    content = [content if every is not None else None]\n    if dist.is_initialized():\n        dist.broadcast_object_list(told)\n        dist.broadcast_object_list(content)\n"},
    ("one rank",),
    "what was saved is sent to all ranks, should they want it",
    "**one rank** gets what the others have",
)
errors_of_the_system_alone = saved(
    {WRITTEN: "        try:\n            problem is None and write_whole(path, content)\n        except OSError as error:\n            problem = (5, str(error))\n"},
    ("told",),
    "only the system is thought to refuse a save: with any other exception the writer leaves and the others wait",
    "the rank that writes runs out of memory",
)
only_the_system_is_cleaned_up_after = saved(
    {"    except Exception:\n        if os.path.exists(other)": "    except OSError:\n        if os.path.exists(other)"},
    ("told",),
    "what was written is left behind where not the system has refused",
    "Checkpoint and folder stay as above",
)
states_outside = saved(
    {OWN_NOW: "    own, problem = of_this_rank(state), None\n"},
    ("told",),
    "a rank whose object raises leaves before it is asked for its part, and the others wait",
    "as an object's `state_dict()` raises",
)
saved_without_it = saved(
    {FOUND: "        every, problem = [one for one in every if one[1] is None], None\n"},
    ("told",),
    "the ranks that have a state are saved without the one that has none",
    "an exception is raised in every rank",
)
plain_states = unbreakable(
    "save_state",
    "What `state_dict()` gives is tensors, numbers, strings, `None`, and dictionaries, lists and tuples of these",
    "it is the caller's objects that give it",
)


def in_one_cell(save, load):
    """A right solution of two functions, written out here."""
    texts = [inspect.getsource(save).replace(save.__name__, "save_state"), inspect.getsource(load).replace(load.__name__, "load_state")]
    return Edited(Attempt("save_state", "save_state", "\n\n".join(texts)))


def save_by_descriptors(path, state):
    world = dist.get_world_size() if dist.is_initialized() else 1
    try:
        words = [int(word) for word in np.random.get_state()[1]]
        own = [{n: o.state_dict() for n, o in state.items()}, random.getstate(), words, list(np.random.get_state()[2:]), torch.random.get_rng_state()]
    except Exception:
        own = None
    boxes = [None] * world
    if world > 1:
        dist.gather_object(own, boxes if dist.get_rank() == 0 else None, dst=0)
    else:
        boxes = [own]
    failed = torch.zeros(1, dtype=torch.int64)
    if world == 1 or dist.get_rank() == 0:
        place = os.path.dirname(os.path.abspath(path))
        temporary = os.path.join(place, f".{os.getpid()}.tmp")
        try:
            assert None not in boxes, "a rank has no state"
            memory = io.BytesIO()
            torch.save({"format": "mine", "world": world, "boxes": boxes}, memory)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                view = memoryview(memory.getvalue())
                while view:
                    view = view[os.write(handle, view) :]
                os.fdatasync(handle)
            finally:
                os.close(handle)
            os.rename(temporary, path)
            folder = os.open(place, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        except Exception as error:
            failed[0] = getattr(error, "errno", None) or 5
            try:
                os.unlink(temporary)
            except OSError:
                pass
    if world > 1:
        dist.broadcast(failed, 0)
    if failed:
        raise OSError(int(failed), os.strerror(int(failed)))


def load_by_descriptors(path, state):
    world, rank = 1, 0
    if dist.is_available() and dist.is_initialized():
        world, rank = dist.get_world_size(), dist.get_rank()
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        assert content["format"] == "mine" and content["world"] == world
        objects, pythons, words, rest, torchs = content["boxes"][rank]
        assert objects.keys() == state.keys()
        numpys = ("MT19937", np.array(words, dtype=np.uint32), *rest)
        trial = random.Random(), np.random.RandomState(0), torch.Generator()
        trial[0].setstate(pythons), trial[1].set_state(numpys), trial[2].set_state(torchs)
    except Exception:
        raise ValueError("no checkpoint of this run") from None
    for name in sorted(state):
        state[name].load_state_dict(objects[name])
    random.setstate(pythons)
    np.random.set_state(numpys)
    torch.random.set_rng_state(torchs)


by_descriptors = in_one_cell(save_by_descriptors, load_by_descriptors)


def save_through_a_class(path, state):
    class Folder:
        def __init__(self, target):
            self.target, self.draft = str(target), str(target) + "~"

        def put(self, content):
            try:
                torch.save(content, self.draft)
                with open(self.draft, "rb+") as draft:
                    os.fsync(draft)
                os.replace(self.draft, self.target)
                folder = os.open(os.path.dirname(os.path.abspath(self.target)), os.O_RDONLY | os.O_DIRECTORY)
                os.fsync(folder)
                os.close(folder)
            except Exception as error:
                if os.path.lexists(self.draft):
                    os.unlink(self.draft)
                raise OSError("not saved") from error

    numpys = dict(np.random.get_state(legacy=False))
    numpys["state"] = {"key": numpys["state"]["key"].tolist(), "pos": numpys["state"]["pos"]}
    own = {"objects": {}, "generators": [random.getstate(), numpys, torch.default_generator.get_state()]}
    fine, together = torch.ones(1), dist.is_initialized()
    try:
        for name in state:
            own["objects"][name] = state[name].state_dict()
    except Exception:
        fine.zero_()
    parts, last = [own], True
    if together:
        dist.all_reduce(fine, op=dist.ReduceOp.MIN)
        last = dist.get_rank() == dist.get_world_size() - 1
    if together and fine.item():
        parts = [None for _ in range(dist.get_world_size())] if last else None
        dist.gather_object(own, parts, dst=dist.get_world_size() - 1)
    if last and fine.item():
        try:
            Folder(path).put(dict(enumerate(parts)))
        except OSError:
            fine.zero_()
    if together:
        dist.all_reduce(fine, op=dist.ReduceOp.MIN)
    if not fine.item():
        raise OSError(f"{path} was not saved")


def load_through_a_class(path, state):
    number, count = 0, 1
    if dist.is_initialized():
        number, count = dist.get_rank(), dist.get_world_size()
    with open(path, "rb") as file:
        try:
            parts = torch.load(file, weights_only=True)
        except Exception as error:
            raise ValueError(f"unreadable: {path}") from error
    if not isinstance(parts, dict) or sorted(map(str, parts)) != sorted(map(str, range(count))):
        raise ValueError("other ranks")
    mine = parts.get(number)
    if not isinstance(mine, dict) or set(mine) != {"objects", "generators"} or not isinstance(mine["objects"], dict):
        raise ValueError("another's file")
    if set(mine["objects"]) ^ set(state):
        raise ValueError("other names")
    def put(pythons, numpys, torchs):
        np.random.set_state(numpys)
        torch.default_generator.set_state(torchs)
        random.setstate(pythons)

    now = random.getstate(), np.random.get_state(legacy=False), torch.default_generator.get_state()
    try:
        pythons, numpys, torchs = mine["generators"]
        numpys["state"]["key"] = np.asarray(numpys["state"]["key"], dtype=np.uint32)
        put(pythons, numpys, torchs)
    except Exception as error:
        raise ValueError("no generators' states") from error
    finally:
        put(*now)
    [state[name].load_state_dict(saved) for name, saved in mine["objects"].items()]
    put(pythons, numpys, torchs)


through_a_class = in_one_cell(save_through_a_class, load_through_a_class)


def save_as_numbers(path, state):
    import json

    name, words, *more = np.random.get_state()
    box, wrong = io.BytesIO(), ""
    try:
        torch.save({key: part.state_dict() for key, part in state.items()}, box)
    except Exception as error:
        wrong = repr(error)
    generators = {"python": random.getstate(), "numpy": [name, words.tolist(), *more], "torch": torch.get_rng_state().tolist()}
    own = {"objects": box.getvalue().hex(), "generators": json.dumps(generators), "names": sorted(state), "wrong": wrong}
    world = dist.get_world_size() if dist.is_initialized() else 1
    rank = dist.get_rank() if world > 1 else 0
    all_of_them = [own]
    if rank > 0:
        letter = torch.frombuffer(bytearray(json.dumps(own).encode()), dtype=torch.uint8)
        dist.send(torch.tensor([len(letter)]), 0)
        dist.send(letter, 0)
    for other in range(1, world) if rank == 0 else ():
        length = torch.zeros(1, dtype=torch.int64)
        dist.recv(length, other)
        letter = torch.empty(int(length), dtype=torch.uint8)
        dist.recv(letter, other)
        all_of_them.append(json.loads(letter.numpy().tobytes()))
    word = ["fine"]
    if rank == 0:
        draft = None
        try:
            if any(one["wrong"] for one in all_of_them):
                raise RuntimeError("a rank has no state")
            draft = tempfile.NamedTemporaryFile(dir=FOLDER_OF(path), delete=False)
            whole = io.BytesIO()
            torch.save(all_of_them, whole)
            draft.write(whole.getvalue())
            draft.flush()
            os.fsync(draft.fileno())
            draft.close()
            os.replace(draft.name, path)
            descriptor = os.open(FOLDER_OF(path), os.O_RDONLY | os.O_DIRECTORY)
            os.fdatasync(descriptor)
            os.close(descriptor)
        except Exception as error:
            word = [repr(error)]
            if draft is not None:
                try:
                    draft.close()
                except OSError:
                    pass
                os.remove(draft.name)
    if world > 1:
        dist.broadcast_object_list(word, src=0)
    if word != ["fine"]:
        raise OSError(word[0])


def load_as_numbers(path, state):
    import json

    file = open(path, "rb")
    try:
        with file:
            parts = torch.load(file, weights_only=True)
        own = parts[dist.get_rank() if dist.is_initialized() else 0]
        if len(parts) != (dist.get_world_size() if dist.is_initialized() else 1) or own["names"] != sorted(state):
            raise KeyError("another run")
        objects = torch.load(io.BytesIO(bytes.fromhex(own["objects"])), weights_only=True)
        generators = json.loads(own["generators"])
    except Exception as error:
        raise ValueError(str(error)) from error
    for key, part in state.items():
        part.load_state_dict(objects[key])
    version, numbers, following = generators["python"]
    random.setstate((version, tuple(numbers), following))
    np.random.set_state(tuple(generators["numpy"]))
    torch.set_rng_state(torch.tensor(generators["torch"], dtype=torch.uint8))


as_numbers = in_one_cell(save_as_numbers, load_as_numbers)
as_numbers.attempt = replace(as_numbers.attempt, source="def FOLDER_OF(path):\n    return os.path.dirname(os.path.abspath(path))\n\n\n" + as_numbers.attempt.source)


# E17.4 spike_guard

ALL_OF_GUARD = ("decision", "together", "untouched", "robust", "gives up", "errors")
DECIDED = ALL_OF_GUARD
NUMBERS = "window < 1 or patience < 1 or not threshold > 0"
MADE = "made, skipped = deque(maxlen=window), 0"
NOT_FINITE = "        if not math.isfinite(mean):\n            return True\n"
FILLING = "        if len(made) < window:\n            return False\n"
MIDDLE = "middle = statistics.median(made)"
DISTANCE = "distance = 1.4826 * statistics.median(abs(value - middle) for value in made)"
ABOVE = "mean - middle > threshold * max(distance, 0.01 * abs(middle))"
OWN = "        mean = torch.tensor([loss], dtype=torch.float64)\n"
SHARED = "        dist.all_reduce(mean, group=group)\n"
AVERAGED = "        mean = mean.item() / dist.get_world_size(group)\n"
DECISION = "        skip = is_spike(mean)\n"
SKIPPED = "            skipped += 1\n"
ANEW = "            skipped = 0\n"
KEPT = "            made.append(mean)\n"
STEPPED = "            optimizer.step()\n"
DROPPED = "        optimizer.zero_grad()\n"
PATIENCE = "        if skipped == patience:\n"


def guarded(edits, loses, because, breaks):
    return edited("spike_guard", edits, loses=loses, because=because, breaks=breaks)


own_loss = guarded(
    {SHARED: "", AVERAGED: "        mean = mean.item()\n"},
    ("together", "gives up"),
    "every rank decides by its own loss, and their weights part",
    "every rank calls it with the **loss of its own batch**",
)
reduced_and_not_used = guarded(
    {AVERAGED: "        mean = loss\n"},
    ("together", "gives up"),
    "a collective is thought to make a decision common, whatever is done with what it brings",
    "so that all ranks decide alike",
)
the_worst = guarded(
    {SHARED: "        dist.all_reduce(mean, op=dist.ReduceOp.MAX, group=group)\n", AVERAGED: "        mean = mean.item()\n"},
    ("together",),
    "the worst rank is thought to decide for all",
    "which sums or averages",
)
votes = guarded(
    {
        SHARED: "",
        AVERAGED: "        mean = mean.item()\n",
        DECISION: "        vote = torch.tensor([float(is_spike(mean))], dtype=torch.float64)\n"
        "        dist.all_reduce(vote, group=group)\n        skip = vote.item() > 0\n",
    },
    ("together",),
    "ranks vote, each by its own loss: one that always sees more is a spike to nobody",
    "a finite mean x is a spike where x - m > `threshold` · s",
)
loss_in_float32 = guarded(
    {OWN: "        mean = torch.tensor([loss])\n"},
    ("together",),
    "a loss is thought to be a float32",
    "of one element, `float64`",
)
gathered = guarded(
    {
        SHARED: "        every = [torch.empty_like(mean) for _ in range(dist.get_world_size(group))]\n"
        "        dist.all_gather(every, mean, group=group)\n        mean = sum(every)\n"
    },
    ("together",),
    "everyone's loss is fetched to be added up",
    "**one all-reduce** of one element",
)
the_default_group_decides = guarded(
    {SHARED: "        dist.all_reduce(mean)\n", AVERAGED: "        mean = mean.item() / dist.get_world_size()\n"},
    ("together",),
    "the group is forgotten",
    "`group` is that process group",
)
a_barrier_too = guarded(
    {SHARED: SHARED + "        dist.barrier(group=group)\n"},
    ("together",),
    "ranks are thought to need a barrier to agree",
    "and nothing else",
)
mean_and_deviation = guarded(
    {
        MIDDLE: "middle = statistics.fmean(made)",
        DISTANCE: "distance = statistics.pstdev(made)",
    },
    DECIDED,
    "mean and standard deviation are taken, which one giant moves as far as it likes",
    "Here m is the **median** of the last `window` means whose steps were made",
)
mean_and_distance = guarded(
    {MIDDLE: "middle = statistics.fmean(made)"},
    DECIDED,
    "distances are thought to be robust enough, whatever they are taken from",
    "Here m is the **median** of the last `window` means",
)
not_scaled = guarded(
    {DISTANCE: "distance = statistics.median(abs(value - middle) for value in made)"},
    DECIDED,
    "the factor that makes a standard deviation of it is forgotten",
    "s is 1.4826 times the median of their distances from m",
)
times_the_median = guarded(
    {ABOVE: "mean > threshold * abs(middle)"},
    DECIDED,
    "a spike is thought to be so many times the median",
    "a finite mean x is a spike where x - m > `threshold` · s",
)
no_least_distance = guarded(
    {ABOVE: "mean - middle > threshold * distance"},
    DECIDED,
    "losses that are alike have no distance, and anything is a spike",
    "but not less than 0.01 · |m|",
)
least_distance_added = guarded(
    {ABOVE: "mean - middle > threshold * (distance + 0.01 * abs(middle))"},
    DECIDED,
    "the least spread is added instead of taken where it is larger",
    "but not less than 0.01 · |m|",
)
of_a_negative_median = guarded(
    {ABOVE: "mean - middle > threshold * max(distance, 0.01 * middle)"},
    DECIDED,
    "a loss is thought to be positive",
    "0.01 · |m|",
)
falls_too = guarded(
    {ABOVE: "abs(mean - middle) > threshold * max(distance, 0.01 * abs(middle))"},
    DECIDED,
    "a loss that falls is thought to be a spike",
    "A mean far below m is no spike",
)
lower_median = guarded(
    {MIDDLE: "middle = statistics.median_low(made)", DISTANCE: DISTANCE.replace("median(", "median_low(")},
    DECIDED,
    "torch.median's lower one is taken for the median",
    "The median of an even number of values is the mean of the two in the middle",
)
upper_median = guarded(
    {MIDDLE: "middle = statistics.median_high(made)", DISTANCE: DISTANCE.replace("median(", "median_high(")},
    DECIDED,
    "the one behind the middle is taken for the median",
    "The median of an even number of values is the mean of the two in the middle",
)
from_the_second_on = guarded(
    {"        if len(made) < window:\n": "        if len(made) < 2:\n"},
    DECIDED,
    "a few values are thought to be enough",
    "as long as fewer than `window` steps have been made, no finite mean is a spike",
)
one_more_to_fill = guarded(
    {"len(made) < window:": "len(made) < window or full.append(1) or len(full) < 2:", MADE: MADE + "\n    full = []"},
    DECIDED,
    "the window is thought to be full one call later",
    "as long as fewer than `window` steps have been made",
)
nan_while_it_fills = guarded(
    {NOT_FINITE + FILLING: FILLING + NOT_FINITE},
    ("together", "untouched", "gives up"),
    "nothing is thought to go wrong while the window fills",
    "a mean that is NaN or infinite is a spike, at any time",
)
nan_compares = guarded(
    {NOT_FINITE: "        if mean == math.inf:\n            return True\n"},
    ("together", "untouched", "gives up"),
    "NaN is thought to be greater than a threshold",
    "a mean that is NaN or infinite is a spike, at any time",
)
minus_infinity = guarded(
    {NOT_FINITE: "        if math.isnan(mean) or mean == math.inf:\n            return True\n"},
    ("together",),
    "a loss of minus infinity is thought to be a good one",
    "a mean that is NaN or infinite is a spike, at any time",
)
all_that_was = guarded(
    {MADE: "made, skipped = [], 0"},
    ALL_OF_GUARD,
    "all means are kept, and a level that was left long ago counts on",
    "of the last `window` means whose steps were made",
)
spikes_count = guarded(
    {KEPT: "", DECISION: DECISION + "        made.append(mean)\n"},
    DECIDED,
    "what was skipped is put among the means, and the next one looks like it",
    "**what was skipped does not count** among the last means",
)
finite_spikes_count = guarded(
    {KEPT: "", DECISION: DECISION + "        if math.isfinite(mean):\n            made.append(mean)\n"},
    DECIDED,
    "spikes are put among the means, if they are numbers",
    "a spike does not hide the next one",
)
gradients_of_zero = guarded(
    {SKIPPED: SKIPPED + "            for parameter in optimizer.param_groups[0]['params']:\n                parameter.grad.zero_()\n            optimizer.step()\n"},
    ("untouched",),
    "a step with gradients of 0 is thought to do nothing; moments and counts move, and weights with them",
    "**neither the weights nor the optimizer's state change**: no moment and no count of steps",
)
rate_of_zero = guarded(
    {
        SKIPPED: SKIPPED + "            rates = [held['lr'] for held in optimizer.param_groups]\n            for held in optimizer.param_groups:\n"
        "                held['lr'] = 0.0\n            optimizer.step()\n            for held, rate in zip(optimizer.param_groups, rates):\n                held['lr'] = rate\n"
    },
    ("untouched",),
    "a rate of 0 is thought to be a skip: the spike's gradients enter the moments",
    "no moment and no count of steps",
)
weights_put_back = guarded(
    {
        DECISION: DECISION + "        parameters = optimizer.param_groups[0]['params']\n        before = [parameter.detach().clone() for parameter in parameters]\n"
        "        if skip:\n            optimizer.step()\n            for parameter, value in zip(parameters, before):\n                parameter.data.copy_(value)\n"
    },
    ("untouched",),
    "the step is made and the weights are put back; the moments are not",
    "neither the weights nor the optimizer's state change",
)
gradients_left = guarded(
    {DROPPED: "        if not skip:\n            optimizer.zero_grad()\n"},
    ("untouched",),
    "what is not stepped on is thought to be gone: it is added to the next batch's",
    "after each call, skipped or not, no parameter of the optimizer has a gradient",
)
gradients_zeroed = guarded(
    {DROPPED: "        optimizer.zero_grad(set_to_none=False)\n"},
    ("untouched",),
    "zeros are taken for nothing",
    "`.grad` is `None`",
)
steps_twice = guarded(
    {STEPPED: STEPPED + STEPPED},
    ("untouched",),
    "a step is thought to be lost and made again",
    "`optimizer.step()` is called once",
)
answers_the_other_way = guarded(
    {"        return not skip": "        return skip"},
    DECIDED,
    "the answer is thought to say whether it was a spike",
    "**a step is made** unless the mean is a spike",
)
no_answer = guarded(
    {"        return not skip": "        return None if skip else True"},
    DECIDED,
    "None is thought to be as good as False",
    "**a spike is skipped**: `step` returns `False`",
)
the_optimizers_own = guarded(
    {"    return step": "    return optimizer.step"},
    ALL_OF_GUARD,
    "the optimizer's own step is given back, unguarded",
    "it returns a function `step(loss)`",
)
for_ever = guarded(
    {PATIENCE: "        if False:\n"},
    ("gives up",),
    "a run that skips on and on learns nothing and never ends",
    "the last of them raises `RuntimeError` in every rank",
)
in_all = guarded(
    {ANEW: "            skipped = skipped\n"},
    DECIDED,
    "all spikes of a run are counted together",
    "A step that is made begins the count anew",
)
one_too_late = guarded(
    {PATIENCE: "        if skipped > patience:\n"},
    ("gives up",),
    "patience is thought to end behind the last skip",
    "where `patience` calls in a row would be skipped",
)
stops_iteration = guarded(
    {'raise RuntimeError(f"{patience}': 'raise OverflowError(f"{patience}'},
    ("gives up",),
    "any exception is thought to do",
    "the last of them raises `RuntimeError`",
)
steps_before_it_ends = guarded(
    {PATIENCE: "        if skipped == patience:\n            for parameter in optimizer.param_groups[0]['params']:\n                parameter.data.mul_(0.5)\n"},
    ("untouched",),
    "something is thought to be due before the end",
    "Weights and state are as they were",
)
one_for_all = guarded(
    {MADE: "made, skipped = spike_guard.__dict__.setdefault('made', deque(maxlen=window)), 0"},
    ALL_OF_GUARD,
    "what is remembered lies where every guard finds it",
    "several such functions know nothing of each other",
)
nothing_refused = guarded(
    {NUMBERS: "False"},
    ("errors",),
    "numbers are thought to make sense",
    "raises `ValueError` for `window` or `patience` less than 1",
)
nan_is_a_threshold = guarded(
    {NUMBERS: "window < 1 or patience < 1 or threshold <= 0"},
    ("errors",),
    "NaN is not less than 0 and is let pass: nothing would ever be a spike",
    "for `threshold` not greater than 0 or NaN",
)


@alternative("spike_guard")
def with_numpy(optimizer, window=16, threshold=6.0, patience=3, group=None):
    import numpy as np

    if not (window >= 1 and patience >= 1 and threshold > 0):
        raise ValueError("numbers")
    history, left = np.empty(0), [patience]

    def step(loss):
        nonlocal history
        total = torch.full((), loss, dtype=torch.double)
        dist.all_reduce(total, dist.ReduceOp.SUM, group)
        x = float(total) / dist.get_world_size(group=group)
        fine = bool(np.isfinite(x))
        if fine and history.size >= window:
            last = history[-window:]
            m = np.median(last)
            s = np.maximum(1.4826 * np.median(np.abs(last - m)), 0.01 * np.abs(m))
            fine = bool(x <= m + threshold * s)
        if fine:
            left[0] = patience
            history = np.append(history, x)
            optimizer.step()
        for held in optimizer.param_groups:
            for p in held["params"]:
                p.grad = None
        if not fine:
            left[0] -= 1
            if not left[0]:
                raise RuntimeError("too many spikes")
        return fine

    return step


@alternative("spike_guard")
def as_a_callable_object(optimizer, window=16, threshold=6.0, patience=3, group=None):
    class GaveUp(RuntimeError):
        pass

    class Guard:
        last, row = (), 0

        def __call__(self, loss):
            shared = torch.tensor(float(loss) / dist.get_world_size(group), dtype=torch.float64).reshape(1)
            dist.all_reduce(shared, group=group)
            try:
                if self.spike(shared[0].item()):
                    self.row += 1
                    if self.row >= patience:
                        raise GaveUp(self.row)
                    return False
                self.row = 0
                self.last = (*self.last, shared[0].item())[-window:]
                optimizer.step()
                return True
            finally:
                optimizer.zero_grad(set_to_none=True)

        def spike(self, x):
            if x != x or abs(x) == float("inf"):
                return True
            if len(self.last) != window:
                return False
            values = torch.tensor(self.last, dtype=torch.float64)
            m = values.quantile(0.5)
            s = (1.4826 * (values - m).abs().quantile(0.5)).clamp(min=0.01 * m.abs())
            return bool((x - m) / s > threshold) if s else x > m

    if window <= 0 or patience <= 0 or threshold <= 0 or threshold != threshold:
        raise ValueError((window, patience, threshold))
    return Guard()


@alternative("spike_guard")
def by_a_generator(optimizer, window=16, threshold=6.0, patience=3, group=None):
    for low in (window, patience):
        if low < 1:
            raise ValueError(low)
    if math.isnan(threshold) or threshold <= 0:
        raise ValueError(threshold)

    def decisions():
        made, in_a_row, verdict = [], 0, None
        while True:
            x = yield verdict
            middle = lambda values: (sorted(values)[len(values) // 2] + sorted(values)[(len(values) - 1) // 2]) / 2  # noqa: E731
            limit = math.inf
            if len(made) == window:
                m = middle(made)
                limit = m + threshold * max(abs(m) / 100, 1.4826 * middle([abs(one - m) for one in made]))
            verdict = -math.inf < x <= limit and x < math.inf
            if verdict:
                made, in_a_row = [*made, x][-window:], 0
            else:
                in_a_row += 1
                verdict = None if in_a_row == patience else False

    running = decisions()
    next(running)

    def step(loss):
        number = torch.tensor([loss], dtype=torch.float64)
        work = dist.all_reduce(number, group=group, async_op=True)
        work.wait()
        verdict = running.send(number.div_(dist.get_world_size(group)).tolist()[0])
        if verdict:
            optimizer.step()
        optimizer.zero_grad()
        if verdict is None:
            raise RuntimeError("given up")
        return verdict

    return step


@alternative("spike_guard")
def kept_on_lists(optimizer, window=16, threshold=6.0, patience=3, group=None):
    from statistics import median

    if min(window, patience) < 1:
        raise ValueError
    if not threshold > 0:
        raise ValueError
    answers, means = [], []

    def step(loss):
        box = torch.zeros(1, dtype=torch.float64)
        box[0] = loss
        dist.all_reduce(box, group=group)
        x = (box / len(dist.get_process_group_ranks(group or dist.group.WORLD))).item()
        recent = means[-window:]
        good = math.isfinite(x)
        if good and len(means) >= window:
            m = median(recent)
            good = not x - m > threshold * max(1.4826 * median(map(lambda one: abs(one - m), recent)), abs(0.01 * m))
        answers.append(good)
        if good:
            means.append(x)
            optimizer.step()
        optimizer.zero_grad()
        if len(answers) >= patience and not any(answers[-patience:]):
            raise RuntimeError(f"{patience} in a row")
        return good

    return step
