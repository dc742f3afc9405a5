"""E8.2: what is drawn: jobs, of which each case is one step. The next is sent when it has been judged."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler
from exercises.precision.dynamic_scaler.truth import LEAST, MOST, Truth

_SGD = ("SGD", {"lr": 0.5, "momentum": 0.9})
_PLAIN = ("SGD", {"lr": 0.5})
_ADAM = ("Adam", {"lr": 0.1})
_ADAMW = ("AdamW", {"lr": 0.1, "weight_decay": 0.5})
DEFAULT_SCALE, DEFAULT_INTERVAL = 65536.0, 2000
Actions = list[dict]


@dataclass(frozen=True)
class Step(Case):
    """``expected``: what the actions are to come to. It stays in the referee."""

    expected: dict = field(default_factory=dict)


def cases(sampler: Sampler) -> Iterator[Case]:
    jobs = [_gradients, _loss_dtypes, _skips, _several, _growth, _large_and_small, _limits, _halving, _clipping, _order]
    for job in sampler.permutation(jobs):
        yield from job(sampler)
    yield Case(("growth",), {"many": DEFAULT_INTERVAL})
    for ends in sampler.shuffled(LEAST, MOST):
        job = Job(sampler, [_PLAIN], ends, 50, each=1)
        yield from job.played("errors", [job.one_step(size=1e-4)])
    job, few = Job(sampler, [_PLAIN], 8.0, 2).inputs, -sampler.integer(1, 9)
    scales = [{"init_scale": scale} for scale in (0.5, 0.0, -2.0, math.inf, math.nan, MOST + 2)]
    for wrong in sampler.shuffled(*scales, {"growth_interval": 0}, {"growth_interval": few}):
        inputs = {"job": job | {"scaler": job["scaler"] | wrong}, "actions": [], "last": True}
        because = " and ".join(f"`{name}` is {value}" for name, value in wrong.items())
        yield Case(("errors",), inputs, raises="ValueError", because=because)


class Job:
    """A job that is drawn. ``inputs``: what the learner's process begins it with.

    ``each``: how many parameters an optimizer has. ``how``: ``on``, where they are; ``half``, whether gradients come through
    float16; ``beside``, another scaler, which takes steps of its own.
    """

    def __init__(self, sampler: Sampler, optimizers: list, scale: float, interval: int, each: int = 2, **how: object):
        self._sampler = sampler
        self.inputs = {
            "parameters": [[sampler.within_one(sampler.integer(2, 5)) for _ in range(each)] for _ in optimizers],
            "optimizers": [list(one) for one in optimizers],
            "scaler": {"init_scale": scale, "growth_interval": interval},
        } | {"on": "cpu", "half": True, "beside": None, **how}

    def backward(self, size: float = 1.0, spoilt: Sequence[int] = (), by: float = math.inf, none: int = -1) -> dict:
        """Gradients of about ``size``; ``spoilt``: the parameters that get ``by`` in one place; ``none``: one without a gradient."""
        parameters = sum(self.inputs["parameters"], [])
        gradients: list = [self._sampler.within_one(*p.shape) * size for p in parameters]
        for place in spoilt:
            gradients[place][self._sampler.integer(0, len(gradients[place]) - 1)] = by
        if none >= 0:
            gradients[none] = None
        return _backward(gradients)

    def one_step(self, **how: object) -> Actions:
        return [self.backward(**how), _step(), _UPDATE]

    def played(self, criteria: str, steps: Sequence[Actions]) -> Iterator[Step]:
        """A case of each step's actions. ``criteria``: names of those that the steps are about."""
        truth, waits = Truth(self.inputs), ("waits",) if self.inputs["on"] == "cuda" else ()
        for number, actions in enumerate(steps):
            inputs = {"actions": actions, "last": number == len(steps) - 1} | ({} if number else {"job": self.inputs})
            yield Step((*criteria.split(), *waits), inputs, expected=truth.play(actions))


def _do(what: str, **by: object) -> dict:
    return {"do": what, "by": by}


_UPDATE = _do("update")


def _backward(gradients: list, loss: str = "float32") -> dict:
    return _do("backward", gradients=gradients, loss=loss)


def _unscale(of: int = 0) -> dict:
    return _do("unscale", of=of)


def _step(of: int = 0, **clipped: float) -> dict:
    return _do("step", of=of, **clipped)


def _gradients(sampler: Sampler) -> Iterator[Step]:
    """With ``unscale_`` and without, a parameter without a gradient, accumulated, and small; one lies transposed."""
    job = Job(sampler, [_PLAIN], float(sampler.choice([1000, 500, 300])), 50, each=sampler.integer(3, 6), on="cuda")
    job.inputs["parameters"][0][1] = sampler.within_one(2, sampler.integer(2, 4))
    steps = [
        [job.backward(), _unscale(), _step(), _UPDATE],
        job.one_step(),
        job.one_step(none=sampler.integer(0, 2)),
        [job.backward(), job.backward(size=0.5), _unscale(), _step(), _UPDATE],
        [job.backward(none=sampler.integer(0, 2), size=1e-5), _unscale(), _step(), _UPDATE],
    ]
    yield from job.played("gradients", steps)


def _loss_dtypes(sampler: Sampler) -> Iterator[Step]:
    """Parameters stay as they are, and the loss is 3.5 or so: scaled, beyond float16."""
    job = Job(sampler, [_PLAIN], 2.0**15, 50)
    job.inputs["parameters"] = [[torch.ones(4), torch.ones(3)]]
    steps = []
    for loss in sampler.shuffled("float16", "bfloat16", "float32"):
        gradients = [torch.full((length,), sampler.integer(2, 7) / 8) for length in (4, 3)]
        steps.append([_backward(gradients, loss), _unscale(), _UPDATE])
    yield from job.played("gradients", steps)


def _skips(sampler: Sampler) -> Iterator[Step]:
    """One optimizer with a state; the first step of all is skipped too."""
    for optimizer, on in sampler.shuffled((_ADAM, "cuda"), (_ADAMW, "cpu")):
        job = Job(sampler, [optimizer], 2.0 ** sampler.integer(6, 10), 50, each=3, on=on)
        steps, places = [], cycle(sampler.shuffled(0, 1, 2))
        for by in (math.inf, 0.0, *sampler.shuffled(math.nan, -math.inf), 0.0):
            backward = job.backward(spoilt=(next(places),) if by else (), by=by)
            steps.append([backward, *_perhaps(sampler, _unscale()), _step(), _UPDATE])
        spoilt = (sampler.integer(0, 2),)
        mended = [job.backward(spoilt=spoilt), _unscale(), _do("mend", of=0), _step(), _UPDATE]
        clipped = [job.backward(spoilt=spoilt), _step(max_norm=0.5), _UPDATE]
        yield from job.played("skip", [*steps, mended, clipped] if on == "cpu" else steps[:3])
    job = Job(sampler, [_SGD], 2.0 ** sampler.integer(6, 10), 50)
    yield from job.played("skip", [[job.backward(), _unscale(), _do("spoil", of=0), _step(), _UPDATE]])


def _perhaps(sampler: Sampler, *actions: dict) -> Sequence[dict]:
    return actions if sampler.chance(0.5) else ()


def _several(sampler: Sampler) -> Iterator[Step]:
    """Two optimizers: each is stepped or skipped by itself; the scale halves once."""
    for on in sampler.shuffled("cpu", "cuda"):
        job = Job(sampler, [_ADAM, _SGD], 2.0 ** sampler.integer(7, 10), 50, on=on)
        steps, bad = [], cycle(sampler.shuffled(math.inf, math.nan))
        of_first, of_second = sampler.shuffled(0, 1), sampler.shuffled(2, 3)
        for spoilt in ((), of_first[:1], of_second[:1], (of_first[1], of_second[1]), ()):
            first, second = sampler.permutation([0, 1])
            unscaled = [_unscale(first), _unscale(second)]
            if len(spoilt) == 1:
                unscaled = _perhaps(sampler, *unscaled)
            steps.append([job.backward(spoilt=spoilt, by=next(bad)), *unscaled, _step(first), _step(second), _UPDATE])
        one_is_not_stepped = [job.backward(spoilt=(0,)), _unscale(0), _step(1), _UPDATE]
        the_other = [job.backward(spoilt=of_first[1:]), _step(0), _step(1), _UPDATE]
        of_card = [steps[1], the_other, one_is_not_stepped]
        yield from job.played("skip backoff", [*steps, one_is_not_stepped, steps[0]] if on == "cpu" else of_card)


def _growth(sampler: Sampler) -> Iterator[Step]:
    """Clean steps, with one that is not where the scale would have grown, and two of them after it has."""
    for interval in sampler.shuffled(1, sampler.integer(2, 4)):
        scale = 2 ** sampler.integer(4, 8)  # of one of them an int
        job = Job(sampler, [_PLAIN], scale if interval == 1 else float(scale), interval, each=1)
        clean = [3 * interval - 1, interval + 1, 0, interval]
        bad = cycle(sampler.shuffled(math.inf, math.nan))
        steps = [job.one_step() for _ in range(clean[0])]
        for count in clean[1:]:
            steps += [job.one_step(spoilt=(0,), by=next(bad)), *(job.one_step() for _ in range(count))]
        yield from job.played("growth", steps)


def _large_and_small(sampler: Sampler) -> Iterator[Step]:
    """The scale grows after as many steps, whatever the gradients' size, and whether the job stepped or only unscaled."""
    for size in sampler.shuffled(1e-6, 4000.0):
        job = Job(sampler, [_PLAIN], 4.0, 2, each=1)
        yield from job.played("growth", [job.one_step(size=size) for _ in range(4)])
    job, sign = Job(sampler, [_PLAIN], 2.0, 2, half=False), sampler.choice((1, -1))
    largest = [torch.full_like(p, sign * 1.5e38) for p in job.inputs["parameters"][0]]
    yield from job.played("growth skip", [[_backward(largest), _step(), _UPDATE]])
    job = Job(sampler, [_ADAM, _PLAIN], 8.0, 2)
    yield from job.played("growth", [[job.backward(), _step(0), _unscale(1), _UPDATE] for _ in range(4)])


def _limits(sampler: Sampler) -> Iterator[Step]:
    job = Job(sampler, [_PLAIN], sampler.choice([3.0 * 2**21, 5.0 * 2**20]), 1, each=1)
    yield from job.played("growth", [job.one_step(size=1e-4) for _ in range(4)])
    job = Job(sampler, [_PLAIN], sampler.choice([3.0, 5.0, 2.5]), 50, each=1)
    yield from job.played("backoff", [job.one_step(spoilt=(0,)) for _ in range(5)])
    job = Job(sampler, [_PLAIN], 1.5, 2, each=1)
    yield from job.played("growth", [job.one_step(spoilt=spoilt) for spoilt in ((0,), (), (0,), (), ())])


def _halving(sampler: Sampler) -> Iterator[Step]:
    """Gradients that overflow by the scale alone, until it is small enough: nobody puts an inf there."""
    job = Job(sampler, [_ADAM], 65536.0, 4)
    yield from job.played("backoff", [job.one_step(size=float(sampler.integer(2, 30))) for _ in range(5)])


def _clipping(sampler: Sampler) -> Iterator[Step]:
    """By ``step`` and by the caller; norms above and below the most; a second optimizer's norm does not count."""
    for on in sampler.shuffled("cpu", "cuda"):
        job = Job(sampler, [_PLAIN, _SGD], 2.0 ** sampler.integer(6, 10), 50, on=on)
        steps = []
        for size, max_norm in sampler.shuffled((1.0, 0.1), (0.01, 0.5), (50.0, 1.0), (0.5, 0.0)):
            backward = job.backward(size=size)
            steps.append([backward, *_perhaps(sampler, _unscale(0)), _step(0, max_norm=max_norm), _step(1), _UPDATE])
        by_the_caller = [_unscale(0), _do("clip", of=0, max_norm=0.25), _step(0), _UPDATE]
        of_both = [_unscale(1), _step(1, max_norm=0.5), _step(0, max_norm=0.25), _UPDATE]
        steps += [[job.backward(size=5.0), *actions] for actions in (by_the_caller, of_both)]
        yield from job.played("clip", steps if on == "cpu" else steps[-2:])


def _order(sampler: Sampler) -> Iterator[Step]:
    """Calls out of order, and after each of them a step that goes as it should; and another scaler in the middle of a step."""
    unscale, step = _unscale(0), _step(0)
    for wrong in sampler.shuffled((unscale, unscale, step), (step, unscale), (step, step), (unscale, step, step)):
        job = Job(sampler, [sampler.choice([_PLAIN, _ADAM]), _PLAIN], 2.0 ** sampler.integer(5, 9), 2)
        steps = [[job.backward(), *actions, _step(1), _UPDATE] for actions in (wrong, (unscale, step))]
        yield from job.played("errors", steps)
    job = Job(sampler, [_PLAIN], 16.0, 2)
    early, twice = [_UPDATE, *job.one_step()], [*job.one_step(), _UPDATE]
    yield from job.played("errors", [early, twice, [job.backward(), _UPDATE], job.one_step()])
    beside = {"init_scale": 2.0**11, "growth_interval": 1}
    job = Job(sampler, [_PLAIN], 2.0 ** sampler.integer(5, 9), 2, beside=beside)
    yield from job.played(
        "errors", [_beside_another(job, *finite) for finite in sampler.shuffled((True, False), (False, True))]
    )


def _beside_another(job: Job, first: bool, then: bool) -> Actions:
    """Another scaler steps while this one's step is under way, of gradients that are finite or are not; neither knows of the other."""
    between, after = _do("other", finite=first), _do("other", finite=then)
    return [job.backward(), _unscale(), between, _step(), after, _step(), _UPDATE]
