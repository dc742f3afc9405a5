"""What every slot does in every step, as gpulab.serving's engine played it."""

from collections.abc import Sequence
from typing import NamedTuple

from gpulab.serving import Budget, Linear, Live, Paged, Plan, Report, Request, Scheduler, serve
from gpulab.serving.blocks.blocks import Blocks, blocks_for
from gpulab.serving.schedulers.named import SCHEDULERS


class Span(NamedTuple):
    """One step of one request in its slot. kind: "prefill", "decode", or "stalled" where nothing of it is computed. us: when."""

    slot: int
    request: int
    kind: str
    tokens: int
    begin_us: float
    us: float


class Played(NamedTuple):
    """spans: step by step. The rest is the report's; ``gap_us`` is the longest between two tokens of a request, 0 without one,
    ``ttft_us`` the mean over the requests."""

    spans: list[Span]
    idle: float
    makespan_us: float
    gap_us: float
    ttft_us: float


class _Noted:
    """A scheduler whose plans are kept: for each step, of everyone who runs in it, what is computed and what was before."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.steps: list[dict[int, tuple[int, bool]]] = []

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        plan = self.scheduler.plan(waiting, running, blocks, budget)
        there = dict.fromkeys([*running, *plan.tokens])
        self.steps.append(
            {int(live.name): (plan.tokens.get(live, 0), live.computed < live.prompt_tokens) for live in there}
        )
        return plan


def allowed(policy: str, requests: Sequence[Request], tokens: int, slots: int) -> int:
    """Tokens of a step: whole prompts want room for the longest beside the decodes of all other slots."""
    longest = max(request.prompt_tokens for request in requests)
    return tokens if policy == "chunked" else max(tokens, longest + slots - 1)


def play(policy: str, requests: Sequence[Request], tokens: int, slots: int, clock: Linear) -> Played:
    """The engine's run of ``requests``, whose names are their numbers, with room for all of them in the cache.

    tokens: a step's budget, as :func:`allowed` has it. Raises KeyError for a policy that is not there.
    """
    noted, room = (
        _Noted(SCHEDULERS[policy]()),
        sum(blocks_for(request.prompt_tokens + request.most, 16) for request in requests),
    )
    budget = Budget(allowed(policy, requests, tokens, slots), slots)
    report = serve(requests, noted, Paged(room), clock, budget=budget)
    return Played(_spans(noted.steps, report), *_numbers(report))


def _spans(steps: list[dict[int, tuple[int, bool]]], report: Report) -> list[Span]:
    """A request takes the first free slot, and leaves it when it is not among those who run any more."""
    slots: dict[int, int] = {}
    spans = []
    for there, step in zip(steps, report.steps, strict=True):
        slots = {request: slot for request, slot in slots.items() if request in there}
        for request, (tokens, prompt) in there.items():
            if request not in slots:
                slots[request] = next(slot for slot in range(len(slots) + 1) if slot not in slots.values())
            kind = "stalled" if not tokens else "prefill" if prompt else "decode"
            spans.append(Span(slots[request], request, kind, tokens, step.begin_us, step.us))
    return spans


def _numbers(report: Report) -> tuple[float, float, float, float]:
    gap = float(report.gaps_us.max()) if len(report.gaps_us) else 0.0
    return report.idle_slots, report.makespan_us, gap, float(report.ttft_us.mean())
