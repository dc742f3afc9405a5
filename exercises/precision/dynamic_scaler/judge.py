"""E8.2 dynamic_scaler: cases and judge. A case is one step of a job; the next is sent when it has been judged."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import error_problem, raised_problem, tensor_problem, type_name
from gpulab import Observation
from gpulab.units import plural

_LEAST, _MOST = 1.0, 2.0**24
_SGD = ("SGD", {"lr": 0.5, "momentum": 0.9})
_PLAIN = ("SGD", {"lr": 0.5})
_ADAM = ("Adam", {"lr": 0.1})
_ADAMW = ("AdamW", {"lr": 0.1, "weight_decay": 0.5})
_DEFAULT_SCALE, _DEFAULT_INTERVAL = 65536.0, 2000


@dataclass(frozen=True)
class Step(Case):
    """``expected``: what the actions are to come to. It stays in the referee."""

    expected: dict = field(default_factory=dict)


class Truth:
    """A job as it is to go, on the host."""

    def __init__(self, job: dict) -> None:
        self._groups = [[torch.nn.Parameter(p.clone()) for p in group] for group in job["parameters"]]
        self._optimizers = [
            getattr(torch.optim, name)([{"params": [p]} for p in group], **options)
            for group, (name, options) in zip(self._groups, job["optimizers"])
        ]
        self._scale = float(job["scaler"]["init_scale"])
        self._interval, self._clean = job["scaler"]["growth_interval"], 0
        self._finite: dict[int, bool] = {}
        self._stepped: set[int] = set()
        self._rounds = job["half"]

    def play(self, actions: list[dict]) -> dict:
        for parameter in sum(self._groups, []):
            parameter.grad = None
        scale, outcomes = self._scale, [getattr(self, f"_{action['do']}")(**action["by"]) for action in actions]
        return {
            "outcomes": outcomes,
            "parameters": [p.detach().clone() for p in sum(self._groups, [])],
            "gradients": [p.grad if p.grad is None else p.grad.clone() for p in sum(self._groups, [])],
            "states": [
                {key: value.clone() for key, value in optimizer.state.get(p, {}).items() if isinstance(value, Tensor)}
                for optimizer, group in zip(self._optimizers, self._groups)
                for p in group
            ],
            "scale": self._scale,
            "before": scale,
        }

    def _backward(self, gradients: list, loss: str) -> Tensor:
        parameters = sum(self._groups, [])
        value = sum((p.detach() * g).sum() for p, g in zip(parameters, gradients, strict=True) if g is not None)
        for p, g in zip(parameters, gradients, strict=True):
            if g is not None:
                scaled = (g * self._scale).half().float() if self._rounds else g * self._scale
                p.grad = scaled if p.grad is None else p.grad + scaled
        return value.to(getattr(torch, loss)).float() * self._scale

    def _unscale(self, of: int) -> str | None:
        if of in self._finite:
            return "RuntimeError"
        gradients = [p.grad for p in self._groups[of] if p.grad is not None]
        for gradient in gradients:
            gradient /= self._scale
        self._finite[of] = all(gradient.isfinite().all() for gradient in gradients)
        return None

    def _step(self, of: int, max_norm: float | None = None) -> bool | str:
        if of in self._stepped:
            return "RuntimeError"
        if of not in self._finite:
            self._unscale(of)
        self._stepped.add(of)
        if self._finite[of]:
            if max_norm is not None:
                self._clip(of, max_norm)
            self._optimizers[of].step()
        return bool(self._finite[of])

    def _clip(self, of: int, max_norm: float) -> None:
        torch.nn.utils.clip_grad_norm_(self._groups[of], max_norm)

    def _mend(self, of: int) -> None:
        for parameter in self._groups[of]:
            parameter.grad.nan_to_num_(0.0, 0.0, 0.0)

    def _other(self, finite: bool) -> None:
        """Another scaler's step changes nothing here."""

    def _update(self) -> str | None:
        if not self._finite:
            return "RuntimeError"
        self._clean = self._clean + 1 if all(self._finite.values()) else 0
        if not self._clean:
            self._scale = max(self._scale / 2, _LEAST)
        elif self._clean >= self._interval:
            self._scale, self._clean = min(self._scale * 2, _MOST), 0
        self._finite, self._stepped = {}, set()
        return None


def _do(what: str, **by: Any) -> dict:
    return {"do": what, "by": by}


def _cases(sampler: Sampler) -> Iterator[Case]:
    for job in sampler.permutation(
        [_gradients, _loss_dtypes, _skips, _several, _growth, _large_and_small, _limits, _halving, _clipping, _order]
    ):
        yield from job(sampler)
    yield Case(("growth",), {"many": _DEFAULT_INTERVAL})
    for ends in sampler.shuffled(_LEAST, _MOST):
        job = _job(sampler, [_PLAIN], ends, 50, each=1)
        yield from _played(job, [(("errors",), _one_step(sampler, job, size=1e-4))])
    job = _job(sampler, [_PLAIN], 8.0, 2)
    for wrong in sampler.shuffled(
        {"init_scale": 0.5},
        {"init_scale": 0.0},
        {"init_scale": -2.0},
        {"init_scale": math.inf},
        {"init_scale": math.nan},
        {"init_scale": 2.0**24 + 2},
        {"growth_interval": 0},
        {"growth_interval": -sampler.integer(1, 9)},
    ):
        yield Case(
            ("errors",),
            {"job": job | {"scaler": job["scaler"] | wrong}, "actions": [], "last": True},
            raises="ValueError",
        )


def _job(
    sampler: Sampler, optimizers: list, init_scale: float, growth_interval: int, each: int = 2, on: str = "cpu"
) -> dict:
    """``each``: how many parameters an optimizer has; ``on``: where they are."""
    parameters = [[sampler.within_one(sampler.integer(2, 5)) for _ in range(each)] for _ in optimizers]
    scaler = {"init_scale": init_scale, "growth_interval": growth_interval}
    way = {"on": on, "grouped": on == "cuda", "half": True, "beside": None}
    return {"parameters": parameters, "optimizers": [list(one) for one in optimizers], "scaler": scaler, **way}


def _played(job: dict, steps: list[tuple[tuple[str, ...], list[dict]]]) -> Iterator[Step]:
    """Cases of a job: what each step is about, and its actions."""
    truth, on_the_card = Truth(job), ("waits",) if job["on"] == "cuda" else ()
    for number, (criteria, actions) in enumerate(steps):
        yield Step(
            criteria + on_the_card,
            ({} if number else {"job": job}) | {"actions": actions, "last": number == len(steps) - 1},
            expected=truth.play(actions),
        )


def _backward(
    sampler: Sampler,
    job: dict,
    size: float = 1.0,
    spoilt: tuple[int, ...] = (),
    by: float = math.inf,
    none: int = -1,
    loss="float32",
) -> dict:
    """Gradients of about ``size``; ``spoilt``: the parameters that get ``by`` in one place; ``none``: one without a gradient."""
    gradients: list = [sampler.within_one(len(p)) * size for group in job["parameters"] for p in group]
    for place in spoilt:
        gradients[place][sampler.integer(0, len(gradients[place]) - 1)] = by
    if none >= 0:
        gradients[none] = None
    return _do("backward", gradients=gradients, loss=loss)


def _gradients(sampler: Sampler) -> Iterator[Step]:
    job = _job(sampler, [_PLAIN], float(sampler.choice([1000, 500, 300])), 50, each=sampler.integer(3, 6), on="cuda")
    criteria = ("gradients",)
    new = lambda **how: _backward(sampler, job, **how)
    step, unscale, update = _do("step", of=0), _do("unscale", of=0), _do("update")
    yield from _played(
        job,
        [
            (criteria, [new(), unscale, step, update]),
            (criteria, [new(), step, update]),
            (criteria, [new(none=sampler.integer(0, 2)), step, update]),
            (criteria, [new(), new(size=0.5), unscale, step, update]),
            (criteria, [new(none=sampler.integer(0, 2), size=1e-5), unscale, step, update]),
        ],
    )


def _loss_dtypes(sampler: Sampler) -> Iterator[Step]:
    job = _job(sampler, [_PLAIN], 2.0**15, 50)
    job["parameters"] = [[torch.ones(4), torch.ones(3)]]
    steps = []
    for loss in sampler.shuffled("float16", "bfloat16", "float32"):
        gradients = [torch.full((4,), sampler.integer(2, 7) / 8), torch.full((3,), sampler.integer(2, 7) / 8)]
        backward = _do("backward", gradients=gradients, loss=loss)
        steps.append((("gradients",), [backward, _do("unscale", of=0), _do("update")]))
    # Parameters are as they were, and the loss is 3.5 or so: scaled, beyond float16.
    yield from _played(job, steps)


def _skips(sampler: Sampler) -> Iterator[Step]:
    """One optimizer with a state; the first step of all is skipped too."""
    for optimizer, on in sampler.shuffled((_ADAM, "cuda"), (_ADAMW, "cpu")):
        job = _job(sampler, [optimizer], 2.0 ** sampler.integer(6, 10), 50, each=3, on=on)
        steps, places = [], itertools.cycle(sampler.shuffled(0, 1, 2))
        for by in (math.inf, 0.0, *sampler.shuffled(math.nan, -math.inf), 0.0):
            spoilt = (next(places),) if by else ()
            actions = [_backward(sampler, job, spoilt=spoilt, by=by), _do("step", of=0), _do("update")]
            if sampler.chance(0.5):
                actions.insert(1, _do("unscale", of=0))
            steps.append((("skip",), actions))
        spoilt = (sampler.integer(0, 2),)
        mended = [
            _backward(sampler, job, spoilt=spoilt),
            _do("unscale", of=0),
            _do("mend", of=0),
            _do("step", of=0),
            _do("update"),
        ]
        clipped = [_backward(sampler, job, spoilt=spoilt), _do("step", of=0, max_norm=0.5), _do("update")]
        yield from _played(job, [*steps, (("skip",), mended), (("skip",), clipped)] if on == "cpu" else steps[:3])


def _several(sampler: Sampler) -> Iterator[Step]:
    """Two optimizers: each is stepped or skipped by itself; the scale halves once."""
    for on in sampler.shuffled("cpu", "cuda"):
        job = _job(sampler, [_ADAM, _SGD], 2.0 ** sampler.integer(7, 10), 50, on=on)
        steps, bad = [], itertools.cycle(sampler.shuffled(math.inf, math.nan))
        of_first, of_second = sampler.shuffled(0, 1), sampler.shuffled(2, 3)
        for spoilt in ((), of_first[:1], of_second[:1], (of_first[1], of_second[1]), ()):
            first, second = sampler.permutation([0, 1])
            unscaled = (
                [_do("unscale", of=first), _do("unscale", of=second)] if len(spoilt) != 1 or sampler.chance(0.5) else []
            )
            backward = _backward(sampler, job, spoilt=tuple(spoilt), by=next(bad))
            steps.append([backward, *unscaled, _do("step", of=first), _do("step", of=second), _do("update")])
        one_is_not_stepped = [
            _backward(sampler, job, spoilt=(0,)),
            _do("unscale", of=0),
            _do("step", of=1),
            _do("update"),
        ]
        the_other = [
            _backward(sampler, job, spoilt=of_first[1:]),
            *(_do("step", of=of) for of in (0, 1)),
            _do("update"),
        ]
        played = [*steps, one_is_not_stepped, steps[0]] if on == "cpu" else [steps[1], the_other, one_is_not_stepped]
        yield from _played(job, [(("skip", "backoff"), actions) for actions in played])


def _growth(sampler: Sampler) -> Iterator[Step]:
    """Clean steps with an inf among them, one before the scale would have grown."""
    for interval in sampler.shuffled(1, sampler.integer(2, 4)):
        job = _job(sampler, [_PLAIN], 2.0 ** sampler.integer(4, 8), interval, each=1)
        script = (
            [False] * (2 * interval)
            + [False] * (interval - 1)
            + [True]
            + [False] * (interval + 1)
            + [True, True]
            + [False] * interval
        )
        bad = itertools.cycle(sampler.shuffled(math.inf, math.nan))
        steps = [
            _one_step(sampler, job, spoilt=(0,), by=next(bad)) if broken else _one_step(sampler, job)
            for broken in script
        ]
        yield from _played(job, [(("growth",), actions) for actions in steps])


def _one_step(sampler: Sampler, job: dict, **how: Any) -> list[dict]:
    return [_backward(sampler, job, **how), _do("step", of=0), _do("update")]


def _large_and_small(sampler: Sampler) -> Iterator[Step]:
    """The scale grows after as many steps, whatever the gradients' size, and whether the job stepped or only unscaled."""
    for size in sampler.shuffled(1e-6, 4000.0):
        interval = 2
        job = _job(sampler, [_PLAIN], 4.0, interval, each=1)
        steps = [_one_step(sampler, job, size=size) for _ in range(2 * interval)]
        yield from _played(job, [(("growth",), actions) for actions in steps])
    job = _job(sampler, [_PLAIN], 2.0, 2) | {"half": False}
    largest = lambda sign: _do(
        "backward", gradients=[torch.full_like(p, sign * 1.5e38) for p in job["parameters"][0]], loss="float32"
    )
    yield from _played(
        job, [(("growth", "skip"), [largest(sampler.choice((1, -1))), _do("step", of=0), _do("update")])]
    )
    job = _job(sampler, [_ADAM, _PLAIN], 8.0, 2)
    actions = lambda: [_backward(sampler, job), _do("step", of=0), _do("unscale", of=1), _do("update")]
    yield from _played(job, [(("growth",), actions()) for _ in range(4)])


def _limits(sampler: Sampler) -> Iterator[Step]:
    job = _job(sampler, [_PLAIN], sampler.choice([3.0 * 2**21, 5.0 * 2**20]), 1, each=1)
    yield from _played(job, [(("growth",), _one_step(sampler, job, size=1e-4)) for _ in range(4)])
    job = _job(sampler, [_PLAIN], sampler.choice([3.0, 5.0, 2.5]), 50, each=1)
    yield from _played(job, [(("backoff",), _one_step(sampler, job, spoilt=(0,))) for _ in range(5)])


def _halving(sampler: Sampler) -> Iterator[Step]:
    """Gradients that overflow by the scale alone, until it is small enough: nobody puts an inf there."""
    job = _job(sampler, [_ADAM], 65536.0, 4, each=2)
    steps = [_one_step(sampler, job, size=float(sampler.integer(2, 30))) for _ in range(5)]
    yield from _played(job, [(("backoff",), actions) for actions in steps])


def _clipping(sampler: Sampler) -> Iterator[Step]:
    """By ``step`` and by the caller; norms above and below the most; a second optimizer's norm does not count."""
    for on in sampler.shuffled("cpu", "cuda"):
        job = _job(sampler, [_PLAIN, _SGD], 2.0 ** sampler.integer(6, 10), 50, on=on)
        steps = []
        for size, max_norm in sampler.shuffled((1.0, 0.1), (0.01, 0.5), (50.0, 1.0), (0.5, 0.0)):
            actions = [
                _backward(sampler, job, size=size),
                _do("step", of=0, max_norm=max_norm),
                _do("step", of=1),
                _do("update"),
            ]
            if sampler.chance(0.5):
                actions.insert(1, _do("unscale", of=0))
            steps.append(actions)
        unscaled, update = _do("unscale", of=0), _do("update")
        steps.append(
            [_backward(sampler, job, size=5.0), unscaled, _do("clip", of=0, max_norm=0.25), _do("step", of=0), update]
        )
        both = [_do("unscale", of=1), _do("step", of=1, max_norm=0.5), _do("step", of=0, max_norm=0.25), update]
        steps.append([_backward(sampler, job, size=5.0), *both])
        yield from _played(job, [(("clip",), actions) for actions in (steps if on == "cpu" else steps[-2:])])


def _order(sampler: Sampler) -> Iterator[Step]:
    """Calls out of order, and after each of them a step that goes as it should."""
    for wrong in sampler.shuffled(
        ("unscale", "unscale", "step"), ("step", "unscale"), ("step", "step"), ("unscale", "step", "step")
    ):
        job = _job(sampler, [sampler.choice([_PLAIN, _ADAM]), _PLAIN], 2.0 ** sampler.integer(5, 9), 2)
        actions = [_backward(sampler, job), *(_do(what, of=0) for what in wrong), _do("step", of=1), _do("update")]
        right = [_backward(sampler, job), _do("unscale", of=0), _do("step", of=0), _do("step", of=1), _do("update")]
        yield from _played(job, [(("errors",), actions), (("errors",), right)])
    job = _job(sampler, [_PLAIN], 16.0, 2)
    early, twice = [_do("update"), *_one_step(sampler, job)], [*_one_step(sampler, job), _do("update")]
    yield from _played(
        job,
        [
            (("errors",), actions)
            for actions in (early, twice, [_backward(sampler, job), _do("update")], _one_step(sampler, job))
        ],
    )
    yield from _beside_another(sampler)


def _beside_another(sampler: Sampler) -> Iterator[Step]:
    """While a step is under way another scaler takes steps of its own, with inf and without; neither knows of the other."""
    job = _job(sampler, [_PLAIN], 2.0 ** sampler.integer(5, 9), 2) | {
        "beside": {"init_scale": 2.0**11, "growth_interval": 1}
    }
    unscale, step, update = _do("unscale", of=0), _do("step", of=0), _do("update")
    steps = []
    for first, second in sampler.shuffled((True, False), (False, True)):
        steps.append(
            [
                _backward(sampler, job),
                unscale,
                _do("other", finite=first),
                step,
                _do("other", finite=second),
                step,
                update,
            ]
        )
    yield from _played(job, [(("errors",), actions) for actions in steps])


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := _object_problem(case, evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
    elif "many" in case.inputs:
        if problem := _many_problem(evidence["scales"]):
            yield Failure("growth", problem)
    elif not case.raises:
        seen = Observation.from_dict(evidence["seen"])
        for criterion in case.criteria:
            if problem := _library_problem(seen) or _PROBLEM[criterion](case, evidence, seen):
                yield Failure(criterion, problem)


def _object_problem(case: Case, evidence: dict) -> str | None:
    if case.raises:
        made = evidence.get("made") or {"returned": "a scaler"}
        return (
            f"{problem} Expected ValueError for such a scaler."
            if (problem := error_problem(made, case.raises))
            else None
        )
    if "made" not in evidence:
        return None
    if "error" in evidence["made"]:
        return raised_problem(evidence["made"]["error"])
    return f"The function returned {type_name(evidence['made']['returned'])}, which lacks {', '.join(map(str, evidence['missing']))}."


def _library_problem(seen: Observation) -> str | None:
    if any("_amp_" in op.op for op in seen.ops) or any("_amp_" in kernel.name for kernel in seen.kernels):
        return "PyTorch's own scaler did the work: its class and its kernels may not be used here."
    return None


def _many_problem(scales: dict) -> str | None:
    if "error" in scales:
        return raised_problem(scales["error"])
    expected = [_DEFAULT_SCALE, _DEFAULT_SCALE, 2 * _DEFAULT_SCALE]
    if scales["returned"] != expected:
        return "Without arguments the scale starts at 65536 and doubles after 2000 updates in a row without inf or NaN."
    return None


def _calls_problem(case: Step, evidence: dict) -> str | None:
    """Of errors that were not expected, or were."""
    outcomes, expected = evidence["outcomes"], case.expected["outcomes"]
    for action, outcome, right in zip(case.inputs["actions"], outcomes, expected, strict=True):
        if right == "RuntimeError" and (problem := error_problem(outcome, right)):
            return f"{action['do']}: {problem} {_OUT_OF_ORDER[action['do']]}"
        if not isinstance(right, str) and "error" in outcome:
            return raised_problem(outcome["error"])
    return None


_OUT_OF_ORDER = {
    "unscale": "Gradients that are divided twice are too small by the scale.",
    "step": "Until the update the step is taken.",
    "update": "There is nothing to go by: no gradients were looked at.",
}


def _gradients_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    if problem := _calls_problem(case, evidence):
        return problem
    for action, outcome, expected in zip(case.inputs["actions"], evidence["outcomes"], case.expected["outcomes"]):
        if action["do"] == "backward" and (problem := _scaled_problem(outcome["returned"], expected)):
            return problem
    for found, expected in zip(evidence["gradients"], case.expected["gradients"], strict=True):
        if problem := _gradient_problem(found, expected, case.expected["before"]):
            return problem
    return _parameters_problem(case, evidence)


def _scaled_problem(found: object, expected: Tensor) -> str | None:
    if problem := tensor_problem(found, expected):
        return f"scale: {problem}"
    if found.isinf().any() and expected.isfinite().all():
        return "The scaled loss is infinite: it was multiplied in 16 bits; expected float32."
    if not torch.allclose(found, expected, 1e-3, 1e-3):
        return "scale does not return the loss times the scale."
    return None


def _gradient_problem(found: object, expected: Tensor | None, scale: float) -> str | None:
    if expected is None:
        return None if found is None else "A parameter without a gradient has one now."
    if problem := tensor_problem(found, expected):
        return f"A gradient is gone or of another kind after the step: {problem}"
    if _close(found, expected):
        return None
    if _close(found * scale, expected):
        return "The gradients are divided by the scale twice."
    if _close(found, expected * scale):
        return "The gradients are not divided by the scale, or not in place."
    return "The gradients after the step are not those of the loss: scaled with it, and divided by the scale once."


def _close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, 1e-4, 1e-9, equal_nan=True)


def _parameters_problem(case: Step, evidence: dict) -> str | None:
    for found, expected in zip(evidence["after"][0], case.expected["parameters"], strict=True):
        if tensor_problem(found, expected) or not torch.allclose(found, expected, 1e-3, 1e-5):
            return "The parameters are not those of one optimizer step with the unscaled gradients."
    return None


def _skip_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    if problem := _calls_problem(case, evidence):
        return problem
    for action, outcome, expected in zip(case.inputs["actions"], evidence["outcomes"], case.expected["outcomes"]):
        if action["do"] == "step" and outcome["returned"] is not expected:
            if type(outcome["returned"]) is not bool:
                return f"step returned {type_name(outcome['returned'])}; expected a bool, whether it took the step."
            if expected:
                return "A step was skipped though its optimizer's gradients are finite."
            return "A step was taken with an inf or a NaN among the gradients that unscale_ found."
    if problem := _kept_problem(case, evidence):
        return problem
    for found, expected in zip(evidence["after"][1], case.expected["states"], strict=True):
        if problem := _state_problem(found, expected):
            return problem
    return _parameters_problem(case, evidence)


def _kept_problem(case: Step, evidence: dict) -> str | None:
    """Nothing may change, not by a bit, where no optimizer was to step."""
    if any(expected is True for expected in case.expected["outcomes"]):
        return None
    before, after = evidence["before"][0], evidence["after"][0]
    if not all(map(torch.equal, before, after)):
        return "A skipped step changed a parameter."
    return None


def _state_problem(found: dict, expected: dict) -> str | None:
    if set(found) != set(expected):
        return "A skipped step leaves the optimizer's state alone, and a step that is taken makes it."
    for key, value in expected.items():
        if tensor_problem(found[key], value) or not torch.allclose(found[key], value, 1e-3, 1e-7):
            return f"The optimizer's {key} is not that of the steps that were taken: a skipped one leaves it alone."
    return None


def _scale_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    if problem := _calls_problem(case, evidence):
        return problem
    if "error" in evidence["get_scale"]:
        return raised_problem(evidence["get_scale"]["error"])
    found, expected, before = evidence["get_scale"]["returned"], case.expected["scale"], case.expected["before"]
    if type(found) is not float:
        return f"get_scale returned {type_name(found)}; expected a float."
    if math.isclose(found, expected, rel_tol=1e-6):
        return None
    if expected < before:
        return "The scale did not halve once, to no less than 1, after gradients that were not finite."
    if expected > before:
        return (
            "The scale did not double after growth_interval updates in a row without inf or NaN, whatever "
            "the size of the gradients."
        )
    if expected == _MOST and found > expected:
        return "The scale grew beyond 2**24."
    if expected == _LEAST and found < expected:
        return "The scale fell below 1."
    return "The scale changed too early: the growth counter restarts after every change of the scale."


def _waits_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    if not seen.kernels:
        return "No work of the device was seen."
    allowed = len({action["by"]["of"] for action in case.inputs["actions"] if action["do"] in ("unscale", "step")})
    if len(seen.waits) <= allowed:
        return None
    line = next((str(wait.line) for wait in seen.waits if wait.line), "")
    return (
        f"The host waited {plural(len(seen.waits), 'time')} in a step, for example at `{line:.80}`, where {allowed} would do: what was found "
        "in each gradient can be put together on the device."
    )


def _errors_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    if problem := _calls_problem(case, evidence) or _scale_problem(case, evidence, seen):
        return problem
    for found, expected in zip(evidence["gradients"], case.expected["gradients"], strict=True):
        if problem := _gradient_problem(found, expected, case.expected["before"]):
            return f"After a call out of order: {problem}"
    return _parameters_problem(case, evidence)


_PROBLEM = {
    "gradients": _gradients_problem,
    "skip": _skip_problem,
    "growth": _scale_problem,
    "backoff": _scale_problem,
    "clip": _gradients_problem,
    "waits": _waits_problem,
    "errors": _errors_problem,
}

exercise = Exercise(
    criteria=(
        Criterion("gradients", 2, "the loss is scaled in float32 and the gradients are divided by the scale once"),
        Criterion(
            "skip",
            2,
            "a step with inf or NaN is skipped, the optimizer's state with it, and every other is taken",
            ("gradients",),
        ),
        Criterion(
            "growth", 2, "the scale doubles after growth_interval updates in a row without inf or NaN, up to 2**24"
        ),
        Criterion("backoff", 1, "the scale halves, once, after inf or NaN, down to 1"),
        Criterion("clip", 1, "gradients are clipped after they are unscaled", ("gradients",)),
        Criterion("waits", 1, "the host waits at most once for each optimizer", ("gradients", "skip")),
        Criterion("errors", 1, "calls out of order and invalid scales are refused", ("gradients",)),
    ),
    cases=_cases,
    judge=_judge,
)
