"""E21.2 checkpoint_interval: cases and judge. What is due comes from the closed form, to which ``tests/fleet`` holds the replay."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from gpulab.fleet import best_interval, useful_share

MORE_WASTE = 1.05
NEAR = 0.01
APART = 1.03


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask(
        "short",
        [
            _job(sampler, cost, restart)
            for cost, restart in sampler.shuffled((1e-4, 0.01), (1e-3, 0.0), (5e-3, 0.01), (0.02, 0.0))
        ],
    )
    yield ask(
        "long",
        [
            _job(sampler, cost, restart)
            for cost, restart in sampler.shuffled(
                (0.2, 0.0), (0.4, 0.05), (0.7, 0.0), (1.0, 0.05), (1.5, 0.0), (1.95, 0.0)
            )
        ],
    )
    yield ask(
        "reload",
        [
            _job(sampler, cost, restart)
            for cost, restart in sampler.shuffled((1e-3, 0.6), (0.01, 0.75), (0.1, 0.85), (0.05, 0.93))
        ],
    )
    yield ask(
        "never",
        [{"cost": sampler.integer(1, 900), "mtbf": math.inf, "restart": sampler.integer(0, 900)} for _ in range(2)],
    )
    offers = [_offers(sampler, kind) for kind in sampler.shuffled(*_KINDS)]
    yield ask("cheapest", offers)
    yield ask("price", offers)
    yield ask(
        "errors",
        [{"cost": cost, "mtbf": mtbf, "restart": restart} for cost, mtbf, restart in _refused(sampler)],
        raises="ValueError",
    )
    yield ask("errors", [_no_offers(sampler, count) for count in sampler.shuffled(0, 1, 3)], raises="ValueError")


def _job(sampler: Sampler, cost: float, restart: float) -> dict:
    """``cost``: as a part of the mean up time; ``restart``: as a part of the mean time between failures."""
    mtbf = sampler.integer(2_000, 90_000)
    return {
        "cost": cost * (1 - restart) * mtbf * sampler.integer(95, 102) / 100,
        "mtbf": mtbf,
        "restart": restart * mtbf,
    }


def _refused(sampler: Sampler) -> Iterator[tuple[float, float, float]]:
    mtbf = sampler.integer(1_000, 9_000)
    yield from sampler.shuffled(
        (0, mtbf, 10),
        (-5, mtbf, 10),
        (20, mtbf, -1),
        (20, mtbf, mtbf),
        (20, mtbf, mtbf + 1),
        (20, 0, 0),
        (20, -mtbf, 0),
        (0, math.inf, 1),
    )


_KINDS = (
    "a third of the price, worth it",
    "a third of the price, lost in restarts",
    "fewer failures",
    "faster cards",
    "cannot start",
    "never fails",
    "saving decides",
)


def _offers(sampler: Sampler, kind: str) -> dict:
    """Two to four offers, the better of two that are alike but for one thing; no two are closer than what is promised."""
    while True:
        question = _drawn(sampler, kind)
        prices = sorted(_price(offer, question) for offer in question["offers"] if offer["mtbf"] > question["restart"])
        if all(dearer > APART * cheaper for cheaper, dearer in zip(prices, prices[1:], strict=False)):
            return question


def _drawn(sampler: Sampler, kind: str) -> dict:
    price, cost, restart = sampler.integer(600, 900), sampler.integer(20, 60), sampler.integer(200, 400)
    steps = sampler.integer(8, 30) / 10
    usual = {"price": price, "mtbf": 50_000, "steps_per_s": steps}
    other = {
        # Cheap machines that fail often: what a restart takes decides which way it goes.
        "a third of the price, worth it": usual | {"price": price * 0.35, "mtbf": 6_000 + restart},
        "a third of the price, lost in restarts": usual
        | {"price": price * 0.35, "mtbf": restart + sampler.integer(100, 130)},
        "fewer failures": usual | {"price": price * 1.06, "mtbf": 400_000},
        "faster cards": usual | {"price": price * 1.8, "steps_per_s": steps * 2.4},
        "cannot start": usual | {"price": price * 0.1, "mtbf": restart - sampler.integer(0, 60)},
        "never fails": usual | {"mtbf": math.inf},
        # The cheaper one by price and speed is the dearer one by what its checkpoints take.
        "saving decides": usual | {"price": price * 0.8, "mtbf": restart + 1_500},
    }[kind]
    offers = [usual, other, usual | {"price": price * 1.5}]
    if sampler.chance(0.5):
        offers.append(other | {"price": other["price"] * 1.3})
    named = [
        {"name": f"{sampler.choice(('zone', 'pool', 'rack'))}-{number}"} | offer for number, offer in enumerate(offers)
    ]
    return {
        "offers": sampler.permutation(named),
        "cost": {"saving decides": 200, "a third of the price, lost in restarts": 20}.get(kind, cost),
        "restart": restart,
    }


def _no_offers(sampler: Sampler, count: int) -> dict:
    restart = sampler.integer(300, 600)
    offer = {"price": 10, "steps_per_s": 1.0}
    offers = [{"name": f"pool-{n}", "mtbf": restart - sampler.integer(0, 100)} | offer for n in range(count)]
    return {"offers": offers, "cost": 10, "restart": restart}


def _waste(interval: float, cost: float, up: float) -> float:
    return 1 / useful_share(interval, cost, up, 0.0) - 1


def _price(offer: dict, question: dict) -> float:
    """Of a useful step."""
    up = offer["mtbf"] - question["restart"]
    interval = math.inf if math.isinf(up) else best_interval(question["cost"], up)
    share = useful_share(interval, question["cost"], up, question["restart"])
    return offer["price"] / 3600 / (offer["steps_per_s"] * share)


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    return (
        _wrong_offer(criteria, question, value)
        if "offers" in question
        else _wrong_interval(criteria, value, **question)
    )


def _wrong_interval(criteria: str, value: Any, cost: float, mtbf: float, restart: float) -> str | None:
    if type(value) not in (int, float) or not value > 0:
        return f"The function returned {type_name(value) if type(value) not in (int, float) else 'no interval above 0'}; expected seconds of work."
    if math.isinf(mtbf):
        return None if math.isinf(value) else _SENTENCES["never"]
    up = mtbf - restart
    try:
        waste = _waste(value, cost, up)
    except (OverflowError, ZeroDivisionError):
        waste = math.inf
    best = best_interval(cost, up)
    if waste <= MORE_WASTE * _waste(best, cost, up):
        return None
    return f"The interval is too {'long' if value > best else 'short'}: it wastes over 5 % more than the best one. {_SENTENCES[criteria]}"


def _wrong_offer(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, list) or len(value) != 2:
        return "A pair of an offer's name and the price of its useful step is due."
    prices = {
        offer["name"]: _price(offer, question) for offer in question["offers"] if offer["mtbf"] > question["restart"]
    }
    name, price = value
    due = min(prices, key=prices.get)
    if name != due:
        return _SENTENCES["cheapest"]
    if criteria == "price" and (type(price) not in (int, float) or not abs(price / prices[due] - 1) <= NEAR):
        return _SENTENCES["price"]
    return None


_SENTENCES = {
    "short": "For a short checkpoint it is about the square root of twice its cost times the mean up time.",
    "long": "Where a checkpoint is no longer short against the up time, the square root is too long: it knows of one failure in a round, at most.",
    "reload": "The mean time between failures has a restart in it; what is left of it is the time in which work can fail.",
    "never": "What never fails needs no checkpoint: the interval is infinite.",
    "cheapest": "Another offer makes a useful step for less. Not the price of an hour decides, nor that of a step that may be lost: restarts, "
    "lost work and checkpoints are paid as well.",
    "price": "The offer is the right one, and the price of its useful step is not: of an hour that is paid, restarts, lost work and checkpoints are no "
    "useful steps.",
}

_answers = answers(
    criteria=(
        Criterion("short", 1, "where a checkpoint is short, the interval wastes at most 5 % more than the best"),
        Criterion("long", 2, "where a checkpoint takes a large part of an up time, it does so, too"),
        Criterion("reload", 2, "the time to restart is no time in which work can fail"),
        Criterion("never", 1, "what never fails is never saved", ("short",)),
        Criterion("cheapest", 2, "the offer whose useful step is cheapest is chosen"),
        Criterion("price", 1, "the price of a useful step is right to 1 %", ("cheapest",)),
        Criterion("errors", 1, "what can never work is refused with ValueError", ("short",)),
    ),
    cases=_cases,
    arguments=lambda question: tuple(question.values()),
    wrong=_wrong,
    kept="The function changed the offers that it was given: the caller still needs them.",
    libraries=("numpy",),
)


def _of_two_functions(sampler: Sampler) -> Iterator[Questions]:
    for case in _answers.cases(sampler):
        name = "cheapest" if "offers" in case.questions[0] else "checkpoint_interval"
        yield replace(case, inputs=case.inputs | {"function": name})


exercise = replace(_answers, cases=_of_two_functions)
