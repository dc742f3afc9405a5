"""Static batching: the next batch begins when the last request of this one is done."""

from collections.abc import Sequence

from gpulab.serving.blocks.blocks import Blocks
from gpulab.serving.plan import Budget, Plan
from gpulab.serving.requests import Live
from gpulab.serving.schedulers.room import decode, let_in


class Static:
    """Request-level batching, as before Orca: who is done leaves his place empty until all are done.

    First the prompts of the whole batch, in as many steps as they take, then its decodes. Kinder than the systems of its
    time: tokens are told as they come, and prompts are not padded to the longest. size: requests in a batch at most, None
    for what a step's budget allows.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size
        self._to_fill: set[Live] = set()

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        plan = Plan()
        if not running:
            self._to_fill = set(waiting[: min(self.size or budget.requests, budget.requests)])
        let_in([live for live in waiting if live in self._to_fill], budget.tokens, blocks, plan)
        if not plan.tokens:
            self._to_fill.clear()
            decode(running, blocks, plan)
        return plan
