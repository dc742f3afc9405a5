"""What two schedulers share: admission, decoding, and which request is preempted when the KV cache is full."""

from collections.abc import Sequence

from gpulab.serving.blocks.blocks import Blocks
from gpulab.serving.plan import Plan
from gpulab.serving.requests import Live


def let_in(waiting: Sequence[Live], left: int, blocks: Blocks, plan: Plan) -> None:
    """Give whole prompts their tokens, first come first served, until one does not fit into what is ``left`` or the cache."""
    for live in waiting:
        if live.left > left or not blocks.reserve(live, live.left):
            return
        plan.tokens[live] = live.left
        left -= live.left


def decode(running: Sequence[Live], blocks: Blocks, plan: Plan) -> None:
    """Give everyone who runs his next token, first come first; preempt whom there is no room for."""
    for live in running:
        if live not in plan.preempt and keep(live, 1, running, blocks, plan):
            plan.tokens[live] = 1


def keep(live: Live, tokens: int, running: Sequence[Live], blocks: Blocks, plan: Plan) -> bool:
    """Reserve room for ``tokens`` more of a running request, preempting the last of ``running`` until there is.

    False if it came to ``live`` itself. Who is first in ``running`` is preempted by nobody else, so he always goes on:
    with requests in order of arrival nobody starves.
    """
    while not blocks.reserve(live, tokens):
        last = next(other for other in reversed(running) if other not in plan.preempt)
        blocks.release(last)
        plan.preempt.append(last)
        if last is live:
            return False
    return True
