"""E17.2 lr_at: cases and judge."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder.core.exercise import Case, Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask

Question = tuple[int, dict]
"""A step, and a config."""
_NEAR = 1e-9
"""Of the peak."""


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Questions]:
    for criteria, make, raises in sampler.shuffled(
        ("warmup", _rising, ""),
        ("decay", _falling, ""),
        ("steps", _counted, ""),
        ("after", _ended, ""),
        ("errors", _just_allowed, ""),
        ("errors", _refused, "ValueError"),
    ):
        yield ask(criteria, make(sampler), raises)
    yield ask("restart", _out_of_turn(sampler))


def _config(sampler: Sampler, warmup: int | None = None, **given: Any) -> dict:
    """A run of some hundred steps whose micro-batches are steps, unless something else is ``given``."""
    peak = sampler.choice([1e-5, 3e-4, 0.1, 2.0]) * sampler.integer(2, 9)
    config = {"peak": peak, "floor": peak * sampler.integer(3, 20) / 100, "epochs": 1, "accumulate": 1} | given
    config.setdefault("micro_batches", sampler.integer(80, 400))
    config["warmup_steps"] = sampler.integer(5, 30) if warmup is None else warmup
    return dict(
        sampler.permutation(
            [*config.items(), ("seed", sampler.integer(0, 99)), ("steps", sampler.integer(1, 9)), ("total_steps", 7)]
        )
    )


def total_steps(config: dict) -> int:
    """Optimizer steps of the whole run."""
    return config["epochs"] * -(-config["micro_batches"] // config["accumulate"])


def _rising(sampler: Sampler) -> list[Question]:
    """No warm-up, of one step, of two, of many, up to the last step; a floor of 0, above the first rates, and at the peak."""
    found = []
    for warmup in sampler.shuffled(0, 1, 2, sampler.integer(20, 60)):
        for share in sampler.shuffled(0.0, sampler.integer(50, 90) / 100, 1.0):
            config = _config(sampler, warmup)
            config["floor"] = config["peak"] * share
            found += [
                (step, config)
                for step in sorted({0, 1, warmup // 2, max(warmup - 1, 0), warmup} & set(range(warmup + 1)))
            ]
    for total in sampler.shuffled(1, 2, sampler.integer(10, 30)):
        config = _config(sampler, total - 1, micro_batches=total)
        found += [(step, config) for step in (0, total - 1)]
    return sampler.permutation(found)


def _falling(sampler: Sampler) -> list[Question]:
    """Behind the peak, at the quarters, around the middle, before the end; a floor of 0, at the peak, between."""
    found = []
    for warmup in sampler.shuffled(0, 1, sampler.integer(10, 30)):
        for share in sampler.shuffled(0.0, sampler.integer(1, 30) / 100, 1.0):
            length = 8 * sampler.integer(10, 40)
            config = _config(sampler, warmup, micro_batches=warmup + length)
            config["floor"] = config["peak"] * share
            places = (
                1,
                2,
                length // 4,
                length // 2,
                length // 2 + 1,
                3 * length // 4,
                length - 1,
                sampler.integer(3, length - 3),
            )
            found += [(warmup + place, config) for place in places]
    short = _config(sampler, 3, micro_batches=5)
    return sampler.permutation([*found, (4, short)])


def _counted(sampler: Sampler) -> list[Question]:
    """Micro-batches that fill steps and that do not, more to a step than an epoch has, one and many epochs."""
    found = []
    for factors in sampler.cover(
        accumulate=(1, 2, sampler.integer(3, 7)), left=(0, 1, 2), epochs=(1, 2, sampler.integer(3, 9))
    ):
        accumulate = factors["accumulate"]
        micro_batches = accumulate * sampler.integer(20, 50) + factors["left"] % accumulate
        config = _config(
            sampler,
            sampler.integer(2, 15),
            accumulate=accumulate,
            micro_batches=micro_batches,
            epochs=factors["epochs"],
        )
        total = total_steps(config)
        found += [(step, config) for step in (total // 2, 3 * total // 4, total - 1, total, total + 1)]
    one_each = _config(sampler, 2, accumulate=64, micro_batches=sampler.integer(5, 63), epochs=sampler.integer(5, 9))
    return sampler.permutation([*found, *((step, one_each) for step in range(total_steps(one_each) + 1))])


def _ended(sampler: Sampler) -> list[Question]:
    """The end, the step behind it, as long again, and far away."""
    found = []
    for warmup in sampler.shuffled(0, sampler.integer(5, 30)):
        for share in sampler.shuffled(0.0, sampler.integer(1, 30) / 100):
            config = _config(sampler, warmup)
            config["floor"], total = config["peak"] * share, total_steps(config)
            length = total - warmup
            found += [(total + more, config) for more in (0, 1, length // 2, length, 2 * length + 1, 10**6, 10**12)]
    return sampler.permutation(found)


def _out_of_turn(sampler: Sampler) -> list[Question]:
    """Steps of two runs, asked forwards, backwards, twice, and with holes."""
    runs = [_config(sampler, warmup=sampler.integer(5, 30)) for _ in range(2)]
    steps = [sampler.integer(0, 90) for _ in range(12)]
    found = [(step, config) for step in [*sorted(steps), *sorted(steps)[::-1], *steps] for config in runs]
    return found + [found[0], found[0]]


_OUT_OF_RANGE = (
    {"peak": 0}, {"peak": -1e-3, "floor": -1e-2}, {"floor": -1e-9}, {"epochs": 0}, {"epochs": -2}, {"micro_batches": 0},
    {"micro_batches": -8}, {"accumulate": 0}, {"accumulate": -1}, {"warmup_steps": -1}, {"peak": 0, "floor": 0},
    {"epochs": -1, "micro_batches": -500},
)  # fmt: skip


def _refused(sampler: Sampler) -> list[Question]:
    """What ValueError is due for, in the warm-up and after it."""
    found = [(step, _config(sampler)) for step in (-1, -sampler.integer(2, 99))]
    found += [(_any_step(sampler), _config(sampler, accumulate=3) | wrong) for wrong in _OUT_OF_RANGE]
    for config in _two_runs(sampler):
        total = total_steps(config)
        wrong = [{"warmup_steps": w} for w in (total, total + 1, config["micro_batches"] * config["epochs"] + 9)]
        wrong += [{"floor": config["peak"] * more} for more in (1.001, 2)]
        found += [(_any_step(sampler), config | one) for one in wrong]
    return sampler.permutation(found)


def _just_allowed(sampler: Sampler) -> list[Question]:
    """What lies just on the other side."""
    found = []
    for config in _two_runs(sampler):
        total = total_steps(config)
        found += [
            (0, config | {"warmup_steps": total - 1}),
            (_any_step(sampler), config | {"floor": config["peak"]}),
            (0, config | {"warmup_steps": 0}),
            (total, config | {"floor": 0}),
            (_any_step(sampler), config | {"floor": 0.0}),
        ]
    return sampler.permutation(found)


def _two_runs(sampler: Sampler) -> tuple[dict, dict]:
    return _config(sampler), _config(sampler, epochs=3, accumulate=4, micro_batches=39)


def _any_step(sampler: Sampler) -> int:
    return sampler.choice([0, 3, sampler.integer(40, 400), 10**6])


# ---- what is due


def expected(step: int, config: dict) -> float:
    """The rate of a step, from the angle that the cosine has come to."""
    warmup, total = config["warmup_steps"], total_steps(config)
    if step < warmup:
        return config["peak"] * (step + 1) / (warmup + 1)
    if step >= total:
        return config["floor"]
    share = math.cos(math.pi * (step - warmup) / (2 * (total - warmup))) ** 2
    return config["peak"] * share + config["floor"] * (1 - share)


# ---- what is wrong


def _wrong(criteria: str, question: Question, value: Any) -> str | None:
    step, config = question
    if criteria == "errors":
        return None  # the other cases ask for the rate
    if type(value) is not float:
        return f"The function returned {type_name(value)}; expected a Python float."
    if math.isfinite(value) and abs(value - expected(step, config)) <= _NEAR * config["peak"]:
        return None
    return _why(criteria, step, config, value)


def _why(criteria: str, step: int, config: dict, value: float) -> str:
    near = lambda rate: abs(value - rate) <= _NEAR * config["peak"]
    warmup, total = config["warmup_steps"], total_steps(config)
    if criteria == "restart":
        return "A rate changes with what was asked before: after a restart nothing was, and the step is all there is to go by."
    if step >= total:
        return "After the end the rate is not the floor: a cosine that goes on rises again, and a step count that begins anew starts over."
    if step < warmup:
        if near(config["peak"] * step / warmup):
            return "The warm-up begins at 0: the first step changes nothing, and step s of W + 1 is due (s + 1) / (W + 1) of the peak."
        return (
            "In the warm-up the rate is not peak (s + 1) / (W + 1): a straight line, which the floor does not hold up."
        )
    if step == warmup:
        return "The step behind the warm-up does not have the peak."
    if criteria == "steps" and near(expected(step, config | {"accumulate": 1})):
        return "The run is as long as its micro-batches: the rate changes with optimizer steps, of several micro-batches each."
    if criteria == "steps":
        return "The run's optimizer steps are miscounted: in each epoch one for every full set of micro-batches, and one for the rest."
    return "Between peak and floor the rate does not lie on half a cosine that begins in step W and ends in step T."


_answers = answers(
    criteria=(
        Criterion("warmup", 2, "the warm-up rises on a straight line from a first rate above 0 to the peak behind it"),
        Criterion("decay", 2, "from the peak the rate falls along half a cosine to the floor", ("warmup",)),
        Criterion("steps", 1, "the run's length is counted in optimizer steps", ("decay",)),
        Criterion("after", 1, "after the end the rate stays at the floor", ("decay",)),
        Criterion("restart", 1, "a rate depends on the step and the config alone", ("decay",)),
        Criterion("errors", 1, "what makes no sense is refused with ValueError, and nothing else is", ("warmup",)),
    ),
    cases=_cases,
    arguments=lambda question: question,
    wrong=_wrong,
    kept="",
    in_kernel=True,
)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    """A config that was changed costs ``restart`` alone, whichever case it was in."""
    yield from _answers.judge(case, evidence)
    if not all(answer["kept"] for answer in evidence["answers"]):
        yield Failure("restart", "The function changed `config`: the next step is asked with it too.")


exercise = replace(_answers, judge=_judge)
