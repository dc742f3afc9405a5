"""Several cards as one pool that shares both phases, or split into one for prompts and one for answers.

A dealer gives requests to the cards of a pool in turn. In a split each card for prompts has a link of its own; keys and
values leave it layer by layer, as soon as a layer is computed, and one prompt after another. The first token is told by the
card that computed the prompt, so the transfer delays the second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpulab.serving.blocks.paged import Paged
from gpulab.serving.clocks.roofline import Roofline
from gpulab.serving.engine import serve
from gpulab.serving.plan import Budget, Scheduler
from gpulab.serving.record import Outcome
from gpulab.serving.requests import Live, Request
from gpulab.serving.schedulers.chunked import Chunked
from gpulab.serving.schedulers.continuous import Continuous

Times = list[list[float]]
"""Of each request of a trace, in its order, the microseconds at which its tokens came."""
RUNNING = 256
"""Requests that one card runs at once, at most."""


@dataclass(frozen=True)
class Pools:
    """``cards`` of the clock's kind."""

    clock: Roofline
    cards: int

    def shared(self, trace: Sequence[Request], rule: Callable[[], Scheduler] = Chunked, budget: int = 512) -> Times:
        """Every card computes prompts and answers; budget: tokens of a step."""
        done = self._dealt(trace, self.cards, Paged, rule, budget)
        return [done[request.name].token_us for request in trace]

    def split(self, trace: Sequence[Request], prefill: int, gbit_per_s: float = 100) -> Times:
        """``prefill`` of the cards compute prompts, whole, the others answers; gbit_per_s: of each link."""
        prompts = self._dealt([replace(r, writes=1, most=1) for r in trace], prefill, Paged, Continuous, 4096)
        first = {r.name: prompts[r.name].token_us for r in trace}
        there = self._sent(trace, prefill, gbit_per_s, {name: times[0] for name, times in first.items()})
        rest = [_behind_its_first_token(r, there[r.name]) for r in trace if r.ends_after > 1]
        rest.sort(key=lambda request: request.arrival_us)
        answers = self._dealt(rest, self.cards - prefill, Arrived, Continuous, 8192)
        return [first[r.name] + (answers[r.name].token_us if r.name in answers else []) for r in trace]

    def _dealt(self, trace, cards, cache, rule, budget) -> dict[str, Outcome]:
        outcomes = {}
        for card in range(cards):
            blocks = cache(self.clock.slots // 16, 16)
            report = serve(trace[card::cards], rule(), blocks, self.clock, budget=Budget(budget, RUNNING))
            outcomes |= {outcome.name: outcome for outcome in report.outcomes}
        return outcomes

    def _sent(self, trace, prefill, gbit_per_s, computed_us) -> dict[str, float]:
        """When each request's keys and values have come: behind their computation, and behind what the link sends before."""
        free_us, there = [0.0] * prefill, {}
        for place in sorted(range(len(trace)), key=lambda place: computed_us[trace[place].name]):
            request, link = trace[place], place % prefill
            whole = sent_us(self.clock, request.prompt_tokens, gbit_per_s)
            alone = computed_us[request.name] + exposed_us(self.clock, request.prompt_tokens, gbit_per_s)
            free_us[link] = there[request.name] = max(free_us[link] + whole, alone)
        return there


class Arrived(Paged):
    """The cache of a card for answers: all but the last token of a prompt is in it when the request comes."""

    shares = True

    def found(self, live: Live) -> int:
        return live.tokens - 1


def _behind_its_first_token(request: Request, arrival_us: float) -> Request:
    told = request.ends_after - 1
    return replace(request, prompt=request.prompt_tokens + 1, arrival_us=arrival_us, writes=told, most=told)


def sent_us(clock: Roofline, tokens: int, gbit_per_s: float) -> float:
    """The keys and values of a prompt over a link of so many 10**9 bits a second."""
    return tokens * clock.kv_bytes * 8e-3 / gbit_per_s


def exposed_us(clock: Roofline, tokens: int, gbit_per_s: float) -> float:
    """What of it is left when the prompt is computed: a layer leaves when it is computed and the one before has gone."""
    layers, whole = clock.shape.layers, sent_us(clock, tokens, gbit_per_s)
    return max(whole / layers, whole - clock.step_us([(tokens, 0)]) * (layers - 1) / layers)


def in_time(trace: Sequence[Request], times: Times, ttft_us: float = 1e6, tpot_us: float = 15e3) -> float:
    """Of the requests, the share with a first token and a mean time per token within both limits."""
    kept = [
        us[0] - request.arrival_us <= ttft_us and (us[-1] - us[0]) / max(1, len(us) - 1) <= tpot_us
        for request, us in zip(trace, times, strict=True)
    ]
    return sum(kept) / len(kept)


def highest_rate(run: Callable[[list[Request]], Times], drawn: Callable[[int], list[Request]], most: int = 32) -> int:
    """Requests a second, below ``most``, of which nine in ten are in time: DistServe's goodput, found by bisection.

    drawn(rate) is a trace of that rate. A rate of 1 is taken for granted.
    """
    good, late = 1, most
    while late - good > 1:
        rate = (good + late) // 2
        trace = drawn(rate)
        good, late = (rate, late) if in_time(trace, run(trace)) >= 0.9 else (good, rate)
    return good
