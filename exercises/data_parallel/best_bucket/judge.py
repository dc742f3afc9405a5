"""E14.2 best_bucket: cases and judge."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask

_MIB = 1 << 20
_TIMES = ("cost", "overlap", "filling")
_REGIMES = ("backward", "both", "link")
"""What binds: the backward pass, now one and now the other, the link."""


def _cases(sampler: Sampler) -> Iterator[Questions]:
    asked = {
        "cost": _alone(sampler),
        "overlap": _one_each(sampler),
        "filling": chain(_filled(sampler), _without_bytes(sampler), _large(sampler)),
        "exposed": chain(_one_each(sampler), _in_the_shadow(sampler), _one_bucket(sampler)),
        "best": chain(_placed(sampler), _ties(sampler)),
    }
    yield from (
        ask(criteria, [_mixed_up(sampler, question) for question in questions]) for criteria, questions in asked.items()
    )
    yield ask("errors", list(_refused(sampler)), raises="ValueError")


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


def _without_bytes(sampler: Sampler) -> Iterator[dict]:
    """Layers without gradients: first, between, last where a bucket is full and where it is not, and all."""
    for regime in sampler.shuffled(*_REGIMES):
        first, *others = _layers(sampler, 5)
        none = [(sampler.integer(200, 900), 0) for _ in range(3)]
        half = first[1] + others[0][1]
        for layers in ([none[0], first, *others], [first, *none[:2], *others], [first, *others, *none[:2]]):
            sizes = sampler.shuffled(1, half, half + 1, sum(nbytes for _, nbytes in layers), 10**6)
            yield _question(layers, *_link(sampler, layers, regime, 3, 3), sizes)
        yield _question(none, *_link(sampler, [first], regime, 1, 2), sampler.shuffled(1, sampler.integer(2, 999)))


def _large(sampler: Sampler) -> Iterator[dict]:
    """Sizes of some MiB, and layers of less."""
    for regime in sampler.shuffled(*_REGIMES):
        layers = _layers(sampler, sampler.integer(30, 50), _MIB)
        sizes = (sampler.integer(2 * _MIB, 4 * _MIB), 25 * _MIB, sampler.integer(5 * _MIB, 9 * _MIB))
        yield _question(layers, *_link(sampler, layers, regime, 5, 8), sizes)


def _in_the_shadow(sampler: Sampler) -> Iterator[dict]:
    """All is sent before the pass ends; then a little is not."""
    for n in sampler.shuffled(1, 2, sampler.integer(3, 9)):
        layers = _layers(sampler, sampler.integer(3, 6))
        link = _link(sampler, layers, "both", 2, max(n, 2))[:2]
        sizes = sampler.shuffled(1, 10**6)
        for rest in (20 * sum(us for us, _ in layers), 1):
            yield _question([*layers, (rest, 0)], *link, n, sizes)


def _one_bucket(sampler: Sampler) -> Iterator[dict]:
    for regime in sampler.shuffled(*_REGIMES):
        layers = _layers(sampler, sampler.integer(2, 7))
        yield _question(layers, *_link(sampler, layers, regime, 1, sampler.integer(2, 9)), [10**6])


def _placed(sampler: Sampler) -> Iterator[dict]:
    """The smallest size is best, one between, the largest; and listed in rising, falling or no order."""
    for place in sampler.shuffled("smallest", "between", "largest"):
        for order in sampler.shuffled(sorted, lambda sizes: sorted(sizes, reverse=True), sampler.permutation):
            question = next(made for made in iter(lambda: _many_sizes(sampler), None) if _place(made) == place)
            sizes = question["buckets"]
            yield question | {"buckets": order([*sizes, sampler.choice(sizes)])}


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
        yield _question(
            [*layers, (2**16, 0)], sampler.integer(1, 9), 8, 4, order([sampler.integer(2, 60), 150, 300, 9999])
        )
        # Two layers: together they leave later by what a second latency costs.
        us, nbytes = sampler.integer(1, 9), 64 * sampler.integer(9, 20)
        yield _question([(7, nbytes), (us, 64)], us, 8, 2, order([1, nbytes, nbytes + 1, nbytes + 64, 9999]))
        for less in (1 / 8, -1 / 8):
            large = 64 * sampler.integer(10**3, 10**4)
            yield _question([(7, large), (us, 64)], us - less, 8, 2, order([1, large, large + 1, 10**7]))


def _refused(sampler: Sampler) -> Iterator[dict]:
    """One thing wrong at a time, among several ranks and one."""
    for n in sampler.shuffled(1, 2, sampler.integer(3, 9)):
        right = _question(_layers(sampler, 4), sampler.integer(1, 9), sampler.integer(1, 9), n, [100, 10**4, 10**6])
        yield right | {"layers": []}
        yield right | {"buckets": []}
        for wrong in sampler.shuffled(0, -1, -sampler.integer(2, 999)):
            yield from (right | {"buckets": [*right["buckets"][:at], wrong, *right["buckets"][at:]]} for at in range(4))
            yield right | {"link": right["link"] | {"ranks": wrong}}
            yield right | {"link": right["link"] | {"bytes_per_us": wrong}}
        yield right | {"buckets": [0]}
        for wrong in sampler.shuffled(-1, -0.25):
            yield right | {"link": right["link"] | {"alpha_us": wrong}}
        for key, wrong in sampler.shuffled(
            ("us", -1), ("us", -0.25), ("bytes", -1), ("bytes", -sampler.integer(2, 999))
        ):
            for at in range(4):
                changed = right["layers"][at] | {key: wrong}
                yield right | {"layers": [*right["layers"][:at], changed, *right["layers"][at + 1 :]]}


def _sent(question: dict, bucket: int) -> Iterator[tuple[Fraction, int]]:
    """When each bucket is ready, and its bytes: those of the layers with gradients, cut where one is full."""
    ends = accumulate(Fraction(layer["us"]) for layer in question["layers"])
    ready, held = Fraction(0), 0
    for end, layer in zip(ends, question["layers"], strict=True):
        if layer["bytes"] == 0:
            continue
        ready, held = end, held + layer["bytes"]
        if held >= bucket:
            yield ready, held
            held = 0
    if held:
        yield ready, held


def _backward(question: dict) -> Fraction:
    return sum((Fraction(layer["us"]) for layer in question["layers"]), start=Fraction(0))


def _step(question: dict, bucket: int) -> Fraction:
    n, free = question["link"]["ranks"], Fraction(0)
    alpha, rate = (Fraction(question["link"][key]) for key in ("alpha_us", "bytes_per_us"))
    if n > 1:
        for ready, held in _sent(question, bucket):
            free = max(free, ready) + alpha + Fraction(2 * (n - 1) * held, n) / rate
    return max(free, _backward(question))


_ENTRIES = {"step_us", "exposed_us", "best"}
_MISREAD = {
    "cost": (
        "The time of an all-reduce is wrong: its latency plus 2 (n - 1) / n of its bytes over the "
        "bandwidth, and nothing for one rank."
    ),
    "overlap": "The step's time is wrong: a bucket starts when its own gradients are ready and the link is free.",
    "filling": "The buckets are wrong: whole layers, in order, until a bucket holds the size or more.",
    "exposed": "The exposed time is wrong: it is what is left of the step when the backward pass has ended.",
    "best": "Another size has a shorter step, or one as short and is smaller.",
}


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) != _ENTRIES:
        return f"The function returned {type_name(value)}; expected a dictionary with the three entries."
    if problem := _times_problem(value["step_us"], question) or _times_problem(value["exposed_us"], question):
        return problem
    steps = {bucket: _step(question, bucket) for bucket in question["buckets"]}
    if criteria == "best":
        right = min(steps, key=lambda bucket: (steps[bucket], bucket))
        return None if type(value["best"]) is int and value["best"] == right else _MISREAD["best"]
    entry, from_us = ("exposed_us", _backward(question)) if criteria == "exposed" else ("step_us", 0)
    given = value[entry]
    right = all(
        abs(Fraction(given[bucket]) - (expected - from_us)) <= expected / 10**9 for bucket, expected in steps.items()
    )
    return None if right else _MISREAD[criteria]


def _times_problem(times: Any, question: dict) -> str | None:
    """Why an entry is not a time for each size, or None."""
    if not isinstance(times, dict):
        return f"An entry of the result is {type_name(times)}; expected a dictionary of a time for each size."
    if any(type(size) is not int for size in times) or set(times) != set(question["buckets"]):
        return "The times are not those of the sizes that were asked about, each once, under the size itself."
    strange = next((us for us in times.values() if type(us) not in (int, float) or not abs(us) < float("inf")), None)
    return None if strange is None else f"A time is {type_name(strange)}; expected a number of microseconds."


exercise = answers(
    criteria=(
        Criterion(
            "cost", 1, "an all-reduce takes its latency and its bytes over the bandwidth, and nothing for one rank"
        ),
        Criterion("filling", 2, "buckets hold whole layers in order, full at the size, and the rest"),
        Criterion("overlap", 2, "buckets go one after another, each once it is ready, while the pass runs"),
        Criterion("exposed", 1, "the exposed time is the part of the step after the end of the backward pass"),
        Criterion("best", 1, "the size with the shortest step is named, and for a tie the smallest", _TIMES),
        Criterion("errors", 1, "invalid layers, links and sizes are refused with ValueError", ("cost",)),
    ),
    cases=_cases,
    arguments=itemgetter("layers", "link", "buckets"),
    wrong=_wrong,
    kept="The function changed a list or a dictionary of its caller, who still needs it.",
    in_kernel=True,
)
