"""Continuous batching: in every step finished requests leave and waiting ones are admitted."""

from collections.abc import Sequence

from gpulab.serving.blocks.blocks import Blocks
from gpulab.serving.plan import Budget, Plan
from gpulab.serving.requests import Live
from gpulab.serving.schedulers.room import decode, let_in


class Continuous:
    """Iteration-level scheduling, first come first served; a prompt is computed at once.

    Orca (Yu et al., OSDI 2022) reports 36.9 times the throughput of FasterTransformer at the same latency, with GPT-3 175B
    and synthetic requests. A long prompt makes everyone who decodes wait for its step.
    """

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        plan = Plan()
        decode(running, blocks, plan)
        if not plan.preempt:
            let_in(waiting[: budget.requests - len(running)], budget.tokens - len(plan.tokens), blocks, plan)
        return plan
