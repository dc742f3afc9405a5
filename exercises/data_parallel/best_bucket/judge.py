"""E14.2 best_bucket: cases and judge."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse

_MIB = 1 << 20
_REGIMES = ("backward", "both", "link")
"""What binds: the backward pass, now one and now the other, the link."""


def _cases(sampler: Sampler) -> Iterator[Questions]:
    asked = {
        "cost": _alone(sampler),
        "overlap": chain(_one_each(sampler), _one_bucket(sampler)),
        "filling": chain(_filled(sampler), _large(sampler)),
        "exposed": chain(_one_each(sampler), _one_rank(sampler)),
        "best": chain(_placed(sampler), _ties(sampler)),
        "errors": chain(_one_bucket(sampler), [_least()]),
    }
    yield from (
        ask(criteria, [_mixed_up(sampler, question) for question in questions]) for criteria, questions in asked.items()
    )
    yield refuse("errors", _refused(sampler))


def _mixed_up(sampler: Sampler, question: dict) -> dict:
    """The entries of the dictionaries in any order, the same for every layer."""
    link, keys = question["link"], sampler.shuffled("us", "bytes")
    layers = [{key: layer[key] for key in keys} for layer in question["layers"]]
    return question | {"layers": layers, "link": dict(sampler.permutation(list(link.items())))}


def _question(layers: Sequence[tuple], alpha: float, rate: float, ranks: int, buckets: Sequence[int]) -> dict:
    link = {"alpha_us": alpha, "bytes_per_us": rate, "ranks": ranks}
    return {"layers": [{"us": us, "bytes": nbytes} for us, nbytes in layers], "link": link, "buckets": list(buckets)}


def _alone(sampler: Sampler) -> Iterator[dict]:
    """One layer whose gradients are one bucket, among one rank, few, many; between two by a link of less than a byte a microsecond."""
    for n in sampler.shuffled(1, 2, 3, 8, sampler.integer(9, 64), sampler.integer(65, 4000)):
        for alpha in sampler.shuffled(0, sampler.integer(1, 40), sampler.integer(100, 900) / 8):
            nbytes = sampler.choice((sampler.integer(10**3, 10**8), sampler.integer(2**33, 2**45)))
            rate = sampler.integer(1, 7) / 8 if n == 2 else sampler.integer(8, 4000) / 8
            us = sampler.choice((0, sampler.integer(1, 900), sampler.integer(8, 9000) / 8))
            yield _question(
                [(us, nbytes)], alpha, rate, n, sampler.shuffled(nbytes - 1, nbytes + sampler.integer(10, 1000))
            )
    yield from _one_rank(sampler)


def _one_rank(sampler: Sampler) -> Iterator[dict]:
    alone = _layers(sampler, sampler.integer(3, 9))
    yield _question(alone, sampler.integer(1, 9), sampler.integer(1, 9), 1, [sampler.integer(1, 9999)])


def _layers(sampler: Sampler, count: int, largest: int = 9999) -> list[tuple]:
    """Of as many microseconds as drawn, and of some thousand bytes, some layers alike."""
    kinds = [(sampler.integer(8, 800) / 8, sampler.integer(largest // 9, largest)) for _ in range(count - 1)]
    return sampler.permutation([*kinds, sampler.choice(kinds)])


def _link(sampler: Sampler, layers: Sequence[tuple], regime: str, messages: int, n: int) -> tuple[float, float, int]:
    """Latency, bandwidth and ranks with which ``messages`` take a part of the pass, about all of it, or more."""
    us, nbytes = sum(layer[0] for layer in layers), sum(layer[1] for layer in layers)
    wanted = us * {"backward": 0.4, "both": 0.95, "link": 2.5}[regime] * sampler.integer(90, 110) / 100
    latencies = sampler.integer(20, 70) / 100
    return wanted * latencies / messages, 2 * (n - 1) / n * nbytes / (wanted * (1 - latencies)), n


def _one_each(sampler: Sampler) -> Iterator[dict]:
    """Every layer a bucket of its own: as many as one, and more than a few."""
    for regime in sampler.shuffled(*_REGIMES):
        for count in sampler.shuffled(2, 3, sampler.integer(5, 12)):
            layers = _layers(sampler, count)
            link = _link(sampler, layers, regime, count, sampler.choice((2, 3, sampler.integer(4, 64))))
            yield _question(layers, *link, sampler.shuffled(1, sampler.integer(2, 9)))
        slow = [(sampler.integer(500, 900), sampler.integer(10**3, 10**4)) for _ in range(3)]
        yield _question([*slow, (0, sampler.integer(2000, 9999)), (1, 1000)], *_link(sampler, slow, regime, 5, 4), [1])


def _filled(sampler: Sampler) -> Iterator[dict]:
    """Sizes on both sides of what the first layers hold together, the last ones, and all of them."""
    for regime in sampler.shuffled(*_REGIMES):
        for count in sampler.shuffled(4, 7, sampler.integer(9, 20)):
            layers = _layers(sampler, count)
            sums = list(accumulate(nbytes for _, nbytes in layers))
            some, last = sampler.integer(1, count - 2), sum(nbytes for _, nbytes in layers[-2:])
            sizes = [size for held in (sums[0], sums[some], sums[-1], last) for size in sampler.around(held)]
            yield _question(
                layers, *_link(sampler, layers, regime, count // 2, sampler.integer(2, 9)), sampler.permutation(sizes)
            )
    same = (sampler.integer(10, 90), sampler.integer(100, 999))
    for count in sampler.shuffled(6, 7):
        yield _question([same] * count, *_link(sampler, [same], "link", 1, 2), sampler.around(2 * same[1]))


def _large(sampler: Sampler) -> Iterator[dict]:
    """Sizes of some MiB, and layers of less."""
    for regime in sampler.shuffled(*_REGIMES):
        layers = _layers(sampler, sampler.integer(30, 50), _MIB)
        sizes = (sampler.integer(2 * _MIB, 4 * _MIB), 25 * _MIB, sampler.integer(5 * _MIB, 9 * _MIB))
        yield _question(layers, *_link(sampler, layers, regime, 5, 8), sizes)


def _one_bucket(sampler: Sampler) -> Iterator[dict]:
    for regime in sampler.shuffled(*_REGIMES):
        layers = _layers(sampler, sampler.integer(2, 7))
        yield _question(layers, *_link(sampler, layers, regime, 1, sampler.integer(2, 9)), [10**6])


def _least() -> dict:
    """A byte a layer, in buckets of a byte, of one rank."""
    return _question([(7, 1), (5, 1)], 3, 2, 1, [1])


def _placed(sampler: Sampler) -> Iterator[dict]:
    """The smallest size is best, one between, the largest; and listed in rising, falling or no order."""
    for place in sampler.shuffled("smallest", "between", "largest"):
        for order in sampler.shuffled(sorted, lambda sizes: sorted(sizes, reverse=True), sampler.permutation):
            question = next(made for made in iter(lambda: _many_sizes(sampler), None) if _place(made) == place)
            sizes = question["buckets"]
            yield question | {"buckets": order(sizes)}


def _many_sizes(sampler: Sampler) -> dict:
    layers = _layers(sampler, sampler.integer(8, 16))
    alpha, *rest = _link(sampler, layers, sampler.choice(_REGIMES), 4, sampler.integer(2, 9))
    sizes = {sampler.integer(1000, 3000), sampler.integer(7000, 25_000), sampler.integer(30_000, 60_000), 10**5}
    return _question(layers, alpha * sampler.choice((0, 0.2, 1, 5)), *rest, sorted(sizes))


def _place(question: dict) -> str:
    """Where the best size stands among the sizes, and ``close`` where another one is hardly slower."""
    steps = {bucket: _step(question, bucket) for bucket in question["buckets"]}
    best, second, *_ = sorted(steps, key=lambda bucket: steps[bucket])
    if steps[second] < steps[best] * Fraction(1000001, 1000000):
        return "close"
    return "smallest" if best == min(steps) else "largest" if best == max(steps) else "between"


def _ties(sampler: Sampler) -> Iterator[dict]:
    """Sizes that fill the same buckets, or others in the same time or nearly: of numbers that a float holds exactly."""
    for order in sampler.shuffled(sorted, lambda sizes: sorted(sizes, reverse=True), sampler.permutation):
        layers = [(sampler.integer(1, 90), 64 * sampler.integer(2, 9)) for _ in range(sampler.integer(3, 6))]
        total = sum(nbytes for _, nbytes in layers)
        alike = [total + sampler.integer(1, 99), total + sampler.integer(100, 999), total - layers[-1][1] + 1, total]
        yield _question(layers, sampler.integer(200, 900), 8, 2, order([*alike, sampler.integer(1, 99)]))
        yield _question(
            layers, sampler.integer(1, 9), 8, 1, order([1, sampler.integer(2, 99), sampler.integer(100, 999)])
        )
        # Two layers: together they leave later by what a second latency costs.
        us, nbytes = sampler.integer(1, 9), 64 * sampler.integer(9, 20)
        yield _question([(7, nbytes), (us, 64)], us, 8, 2, order([1, nbytes, nbytes + 1, nbytes + 64, 9999]))
        for less in (1 / 8, -1 / 8):
            large = 64 * sampler.integer(10**3, 10**4)
            yield _question([(7, large), (us, 64)], us - less, 8, 2, order([1, large, large + 1, 10**7]))


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    """One thing wrong at a time, among several ranks and one; in a list at any place."""
    for n in sampler.shuffled(1, sampler.integer(2, 9)):
        right = _question(_layers(sampler, 4), sampler.integer(1, 9), sampler.integer(1, 9), n, [100, 10**4, 10**6])
        layers, link, sizes = right["layers"], right["link"], right["buckets"]
        yield right | {"layers": []}, "there are no layers"
        yield right | {"buckets": []}, "there are no sizes"
        for wrong in sampler.shuffled(0, -sampler.integer(1, 999)):
            for at in range(4):
                yield right | {"buckets": [*sizes[:at], wrong, *sizes[at:]]}, "a size is less than 1"
            yield right | {"link": link | {"ranks": wrong}}, '`"ranks"` is less than 1'
            yield right | {"link": link | {"bytes_per_us": wrong}}, '`"bytes_per_us"` is not above 0'
        yield right | {"link": link | {"alpha_us": sampler.choice((-1, -0.25))}}, '`"alpha_us"` is less than 0'
        less = ("us", -1, 0), ("us", -0.25, 0), ("bytes", 0, 1), ("bytes", -sampler.integer(1, 999), 1)
        for (key, wrong, least), at in zip(sampler.shuffled(*less), sampler.permutation(range(4)), strict=True):
            changed = [*layers[:at], layers[at] | {key: wrong}, *layers[at + 1 :]]
            yield right | {"layers": changed}, f'the `"{key}"` of a layer is less than {least}'


def _sent(question: dict, bucket: int) -> Iterator[tuple[Fraction, Fraction, int]]:
    """Of each bucket when the first of its gradients are ready, and all of them, and its bytes."""
    first, end, held = None, Fraction(0), 0
    for layer in question["layers"]:
        end, held = end + Fraction(layer["us"]), held + layer["bytes"]
        first = end if first is None else first
        if held >= bucket:
            yield first, end, held
            first, held = None, 0
    if held:
        yield first, end, held


def _backward(question: dict) -> Fraction:
    return sum((Fraction(layer["us"]) for layer in question["layers"]), start=Fraction(0))


def _step(question: dict, bucket: int) -> Fraction:
    n, free = question["link"]["ranks"], Fraction(0)
    alpha, rate = (Fraction(question["link"][key]) for key in ("alpha_us", "bytes_per_us"))
    if n > 1:
        for _, ready, held in _sent(question, bucket):
            free = max(free, ready) + alpha + Fraction(2 * (n - 1) * held, n) / rate
    return max(free, _backward(question))


_ENTRIES = {"step_us", "exposed_us", "best"}


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if criteria == "errors":  # not refused: that is all that is asked
        return None
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary with the three entries."
    if set(value) != _ENTRIES:
        return "The entries of the dictionary are not the three that are asked for."
    if problem := _times_problem(value["step_us"], question) or _times_problem(value["exposed_us"], question):
        return problem
    return None if _RIGHT[criteria](question, value) else _MISREAD[criteria]


def _times_problem(times: Any, question: dict) -> str | None:
    """Why an entry is not a time for each size, or None."""
    if not isinstance(times, dict):
        return f"An entry of the result is {type_name(times)}; expected a dictionary of a time for each size."
    if any(type(size) is not int for size in times) or set(times) != set(question["buckets"]):
        return "The times are not those of the sizes that were asked about, each once, under the size itself."
    strange = next((us for us in times.values() if type(us) not in (int, float) or not abs(us) < float("inf")), None)
    return None if strange is None else f"A time is {type_name(strange)}; expected a number of microseconds."


def _is_cost(question: dict, value: dict) -> bool:
    """An all-reduce takes what it does, in some account of when it runs and of how the rest is sent."""
    right, *_ = _costs(question)
    sizes = question["buckets"]
    return any(_fits(question, value, timing, right, [size]) for timing in _TIMINGS for size in sizes)


def _is_in_time(question: dict, value: dict) -> bool:
    """The all-reduces run one after another, each as long as in some account of its cost."""
    return any(_fits(question, value, _one_after_another, cost, question["buckets"]) for cost in _costs(question))


def _is_filled(question: dict, value: dict) -> bool:
    """The buckets are right in some account of what an all-reduce costs, and of when each of them runs."""
    accounts = ((timing, cost) for timing in _TIMINGS for cost in _costs(question))
    return any(_fits(question, value, *account, question["buckets"]) for account in accounts)


def _is_exposed(question: dict, value: dict) -> bool:
    """What the function's own steps take after the backward pass."""
    backward, exposed = _backward(question), value["exposed_us"]
    return all(
        abs(Fraction(exposed[bucket]) - (Fraction(us) - backward)) <= abs(Fraction(us)) / 10**9
        for bucket, us in value["step_us"].items()
    )


def _is_best(question: dict, value: dict) -> bool:
    """The best of the sizes, or of the steps as the function has them."""
    right = {bucket: _step(question, bucket) for bucket in question["buckets"]}
    best = {min(us, key=lambda bucket: (us[bucket], bucket)) for us in (right, value["step_us"])}
    return type(value["best"]) is int and value["best"] in best


def _near(us: float, expected: float | Fraction) -> bool:
    return abs(Fraction(us) - Fraction(expected)) <= Fraction(expected) / 10**9


# ---- other accounts of one term, so that who is wrong in it loses the criterion that is about it and no more

Sent = list[tuple[float, float, float, float]]
"""Of each all-reduce when the first of its gradients are ready, and all, and its latency and the rest of its microseconds."""


def _fits(
    question: dict, value: dict, timing: Callable[[Sent, float], float], cost: Callable, sizes: list[int]
) -> bool:
    """Whether the steps of these sizes are those of the right buckets, in these accounts."""
    backward = float(_backward(question))
    for size in sizes:
        sent = [(float(first), float(ready), *cost(held)) for first, ready, held in _sent(question, size)]
        if not _near(value["step_us"][size], max(backward, timing(sent, backward))):
            return False
    return True


def _costs(question: dict) -> Iterator[Callable[[int], tuple[float, float]]]:
    """(latency, the rest) of an all-reduce by its bytes; the right account first."""
    n, alpha, rate = (question["link"][key] for key in ("ranks", "alpha_us", "bytes_per_us"))
    right = 2 * (n - 1) / n
    yield lambda held: (alpha * (n > 1), right * held / rate)
    for share in (2, 1, right / 2, right * n):
        yield lambda held, share=share: (alpha, share * held / rate)
    for latencies in (0, n, n - 1, 2 * (n - 1)):
        yield lambda held, latencies=latencies: (latencies * alpha, right * held / rate)


def _in_turn(ready_and_us: Iterable[tuple[float, float]]) -> float:
    free = 0.0
    for ready, us in ready_and_us:
        free = max(free, ready) + us
    return free


def _one_after_another(sent: Sent, backward: float) -> float:
    return _in_turn((ready, wait + us) for _, ready, wait, us in sent)


_TIMINGS = (
    _one_after_another,
    lambda sent, backward: backward + sum(wait + us for *_, wait, us in sent),  # after the pass
    lambda sent, backward: sum(wait + us for *_, wait, us in sent),  # from its beginning
    lambda sent, backward: sent[0][1] + sum(wait + us for *_, wait, us in sent),  # without a pause
    lambda sent, backward: max(ready + wait + us for _, ready, wait, us in sent),  # on links of their own
    lambda sent, backward: _in_turn(
        (ready + wait, us) for _, ready, wait, us in sent
    ),  # latencies on links of their own
    lambda sent, backward: _in_turn((first, wait + us) for first, _, wait, us in sent),  # with the first gradient
    lambda sent, backward: _in_turn(
        (ready + i * wait, wait + us) for i, (_, ready, wait, us) in enumerate(sent)
    ),  # holding it up
)
_MISREAD = {
    "cost": (
        "The time of an all-reduce is wrong: its latency plus 2 (n - 1) / n of its bytes over the "
        "bandwidth, and nothing for one rank."
    ),
    "overlap": "The step's time is wrong: a bucket starts when its own gradients are ready and the link is free.",
    "filling": "The step is not that of the right buckets: whole layers, in order, until a bucket holds the size or more.",
    "exposed": "The exposed time is wrong: it is what is left of `step_us` when the backward pass has ended.",
    "best": "Another size has a shorter step, or one as short and is smaller.",
}
_RIGHT = {
    "cost": _is_cost,
    "overlap": _is_in_time,
    "filling": _is_filled,
    "exposed": _is_exposed,
    "best": _is_best,
}


def _traits(layers: list[dict], link: dict, buckets: list[int]) -> dict[str, str]:
    whole = sum(layer["bytes"] for layer in layers)
    return {
        "`ranks`": "1" if link["ranks"] == 1 else "2 or more",
        "the number of layers": "1" if len(layers) == 1 else "2 or more",
        "the number of sizes": "1" if len(buckets) == 1 else "2 or more",
        "the smallest size": "all layers together or more"
        if min(buckets) >= whole
        else "less than all layers together",
        "the largest size": "all layers together or more" if max(buckets) >= whole else "less than all layers together",
        "the sizes' order": "rising" if list(buckets) == sorted(buckets) else "not rising",
        "`alpha_us`": "greater than 0" if link["alpha_us"] else "0",
    }


exercise = answers(
    criteria=(
        Criterion(
            "cost", 1, "an all-reduce takes its latency and its bytes over the bandwidth, and nothing for one rank"
        ),
        Criterion("filling", 2, "buckets hold whole layers in order, full at the size, and the rest"),
        Criterion("overlap", 2, "buckets go one after another, each once it is ready, while the pass runs"),
        Criterion(
            "exposed", 1, "the exposed time is the part of the step after the end of the backward pass", ("cost",)
        ),
        Criterion("best", 1, "the size with the shortest step is named, and for a tie the smallest", ("cost",)),
        Criterion("errors", 1, "invalid layers, links and sizes are refused with ValueError"),
    ),
    cases=_cases,
    arguments=itemgetter("layers", "link", "buckets"),
    wrong=_wrong,
    kept="The function changed a list or a dictionary of its caller, who still needs it.",
    in_kernel=True,
    traits=lambda question: _traits(**question),
)
