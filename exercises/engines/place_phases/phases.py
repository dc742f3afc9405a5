"""What sharing instances and splitting them come to, for E19.4: the statement's model, a question at a time, in fractions.

A question is ``{"workload": {...}, "mix": [[prompt, cached, output, weight], ...], "cluster": {...}}``, with a text for a
number that is no integer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Due:
    """What is right."""

    placement: str | None
    bytes: Fraction
    break_even_gbps: Fraction | None
    plans: dict[str, dict[str, Fraction] | None]


class Model:
    """A question's numbers, all of them fractions, and its averages."""

    def __init__(self, question: dict) -> None:
        self.mix = question["mix"]
        self.weight = sum(weight for *_, weight in self.mix)
        named = question["workload"] | question["cluster"]
        self.has = SimpleNamespace(
            **{key: number if type(number) is int else Fraction(number) for key, number in named.items()}
        )
        self.new = [prompt - cached for prompt, cached, _, _ in self.mix]
        self.computing = [self.has.prefill_us * new for new in self.new]
        self.sent = [self.has.kv_bytes * prompt for prompt, *_ in self.mix]
        self.after_first = self.average(output - 1 for _, _, output, _ in self.mix)

    def average(self, values: Iterable[Fraction]) -> Fraction:
        return Fraction(sum(kind[3] * value for kind, value in zip(self.mix, values, strict=True)), self.weight)

    def load(self, instances: int, values: list[Fraction]) -> Fraction:
        """Of what takes so many microseconds of each kind."""
        return Fraction(self.has.rate, 10**6 * instances) * self.average(values)

    def first_us(self, instances: int, values: list[Fraction]) -> Fraction:
        """Until a prompt is computed: waiting for those before it, and itself."""
        waits = self.load(instances, [value * value for value in values]) / (2 - 2 * self.load(instances, values))
        return waits + self.average(values)

    def times(self, ttft: Fraction, tbt: Fraction, gap: Fraction) -> dict[str, Fraction]:
        return {"ttft_us": ttft, "tbt_us": tbt, "gap_us": gap, "latency_us": ttft + self.after_first * tbt}

    # ---- shared

    def chunked(self) -> list[Fraction]:
        return [
            spent + self.has.step_us * -(-new // self.has.chunk)
            for spent, new in zip(self.computing, self.new, strict=True)
        ]

    def shared(self) -> dict[str, Fraction] | None:
        has, takes = self.has, self.chunked()
        if self.load(has.instances, takes) >= 1:
            return None
        tbt = self.shared_tbt()
        if self.running() > has.slots:
            return None
        return self.times(
            self.first_us(has.instances, takes), tbt, has.step_us + has.prefill_us * min(has.chunk, max(self.new))
        )

    def shared_tbt(self) -> Fraction:
        return self.has.step_us / (1 - self.load(self.has.instances, self.computing))

    def at_once(self, tbt: Fraction) -> Fraction:
        """Requests that decode, on all instances together."""
        return self.after_first * self.has.rate * tbt / 10**6

    def running(self) -> Fraction:
        """Requests that decode on each of the shared instances."""
        return self.at_once(self.shared_tbt()) / self.has.instances

    # ---- split

    def sizes(self) -> tuple[int, int] | None:
        decode = max(1, ceil(self.at_once(self.has.step_us) / self.has.slots))
        prefill = int(self.has.instances) - decode
        return (prefill, decode) if prefill >= 1 and self.load(prefill, self.computing) < 1 else None

    def exposed_us(self, us_per_byte: Fraction) -> Fraction:
        """On average, without the latency: a layer after the other."""
        return self.average(
            last_gone(spent, sent * us_per_byte, self.has.layers)
            for spent, sent in zip(self.computing, self.sent, strict=True)
        )

    def split(self, gbps: Fraction) -> dict[str, Fraction] | None:
        us_per_byte, sizes = Fraction(8, 1000) / gbps, self.sizes()
        if sizes is None or self.load(sizes[0], self.sent) * us_per_byte > 1:
            return None
        exposed = self.exposed_us(us_per_byte) + self.has.link_latency_us
        ttft = self.first_us(sizes[0], self.computing) + exposed
        times = self.times(ttft, self.has.step_us, self.has.step_us)
        return times | {"exposed_us": exposed, "prefill": Fraction(sizes[0]), "decode": Fraction(sizes[1])}

    def unhidden_us(self, prefill: int) -> Fraction:
        """The mean latency of a split over links without delay."""
        return self.first_us(prefill, self.computing) + self.after_first * self.has.step_us

    def gain(self) -> Fraction | None:
        """What a split over links without delay saves of the mean latency."""
        shared, sizes = self.shared(), self.sizes()
        return None if shared is None or sizes is None else shared["latency_us"] - self.unhidden_us(sizes[0])

    def break_even(self) -> Fraction | None:
        sizes, gain = self.sizes(), self.gain()
        if sizes is None or (gain is not None and gain <= self.has.link_latency_us):
            return None
        us_per_byte = 1 / self.load(sizes[0], self.sent)
        if gain is not None:
            us_per_byte = min(us_per_byte, reaches(self.exposed_us, gain - self.has.link_latency_us, self.bends()))
        return Fraction(8, 1000) / us_per_byte

    def bends(self) -> list[Fraction]:
        """Microseconds a byte at which a kind is sent for as long as it is computed."""
        return sorted({Fraction(spent, sent) for spent, sent in zip(self.computing, self.sent, strict=True)})


def last_gone(computed: Fraction, sent: Fraction, layers: int) -> Fraction:
    """How long after the computation the last layer has gone. Between the first and the last all take the longer of two times."""
    return Fraction(max(computed, sent) * (layers - 1) + computed + sent) / layers - computed


def reaches(rising: Callable[[Fraction], Fraction], height: Fraction, bends: list[Fraction]) -> Fraction:
    """Where a function that is straight between its bends, and 0 at 0, has a height above 0."""
    start = Fraction(0)
    for bend in [*bends, 2 * bends[-1]]:
        low, high = rising(start), rising(bend)
        if high >= height or bend > bends[-1]:
            return start + (height - low) * (bend - start) / (high - low)
        start = bend
    raise AssertionError("the last piece has no end")


def placed(plans: dict[str, dict[str, Fraction] | None], has: SimpleNamespace) -> str | None:
    """Which of two plans is due, whoever worked them out."""
    within = [name for name in ("shared", "split") if plans[name] and _within(plans[name], has)]
    return min(within, key=lambda name: plans[name]["latency_us"], default=None)


def _within(plan: dict[str, Fraction], has: SimpleNamespace) -> bool:
    return plan["ttft_us"] <= has.most_ttft_us and plan["gap_us"] <= has.most_gap_us


def expected(model: Model) -> Due:
    plans = {"shared": model.shared(), "split": model.split(model.has.link_gbps)}
    return Due(placed(plans, model.has), model.average(model.sent), model.break_even(), plans)


def refused(question: dict) -> str:
    """What ValueError is due for, or nothing."""
    if not question["mix"]:
        return "the mix is empty"
    named = [*(question["workload"] | question["cluster"]).items()]
    for kind in question["mix"]:
        named += zip(("prompt", "cached", "output", "weight"), kind, strict=True)
        if not 0 <= kind[1] < kind[0]:
            return "`cached` is less than 0 or not less than `prompt`"
    for name, value in named:
        if Fraction(value) < 0 or value == 0 and name not in ("cached", "link_latency_us"):
            return f"`{name}` is {'less than' if Fraction(value) < 0 else 'equal to'} 0"
    return ""


def stated(number: Any) -> int | str:
    """A number as a question has it."""
    number = Fraction(number)
    return number.numerator if number.denominator == 1 and abs(number) < 2**62 else str(number)
