"""Validation of what schedulers, block allocators, attention and samplers return, whoever wrote them."""

from collections.abc import Sequence

from gpulab.serving.blocks.blocks import Blocks
from gpulab.serving.plan import Budget, Plan
from gpulab.serving.requests import Live


class PartError(RuntimeError):
    """A scheduler, an allocator, a clock or a model broke a rule; the message says which and with whom."""


def need(holds: bool, message: str) -> None:
    if not holds:
        raise PartError(message)


def check_plan(plan: Plan, waiting: Sequence[Live], running: Sequence[Live], budget: Budget) -> None:
    """Raises PartError for a plan that cannot be carried out."""
    need(isinstance(plan, Plan), f"the scheduler answered {type(plan).__name__}; expected a Plan")
    ran, there = set(running), {*running, *waiting}
    for live in plan.preempt:
        need(live in ran, f"the plan preempts {_name(live)}, which is not running")
        need(live not in plan.tokens, f"the plan preempts {_name(live)} and gives it tokens in the same step")
    need(len(set(plan.preempt)) == len(plan.preempt), "the plan preempts a request twice")
    for live, tokens in plan.tokens.items():
        if live not in there:
            raise PartError(f"the plan gives tokens to {_name(live)}, which neither waits nor runs")
        if not _whole(tokens):
            raise PartError(f"the plan gives {live.name} {tokens!r} tokens; expected a whole number from 1 on")
        if tokens > live.left:
            raise PartError(f"the plan gives {live.name} {tokens} tokens, it has {live.left} left to compute")
        if live.whole and live.computed + tokens < live.prompt_tokens:
            raise PartError(
                f"the plan cuts the prompt of {live.name}: it is whole, all {live.prompt_tokens} tokens in one step"
            )
    total, stay = sum(plan.tokens.values()), ran.union(plan.tokens).difference(plan.preempt)
    need(total <= budget.tokens, f"the plan computes {total} tokens, the budget of a step is {budget.tokens}")
    need(len(stay) <= budget.requests, f"by the plan {len(stay)} requests run, at most {budget.requests} may")
    need(bool(plan.tokens), f"livelock: the plan gives nobody a token, and {len(running)} run and {len(waiting)} wait")


def check_room(plan: Plan, running: Sequence[Live], blocks: Blocks) -> int:
    """Places in the tables of the running requests that will be empty when the plan is done.

    Raises PartError where a request has no room for its part of it, or lost what it had.
    """
    size, planned, empty = blocks.size, plan.tokens, 0
    for live in running:
        room, has = len(blocks.table(live)) * size, live.computed
        if room < has:
            raise PartError(
                f"{live.name} has {has} tokens computed and room for {room}: it lost blocks and was not preempted"
            )
        if room < has + planned.get(live, 0):
            raise PartError(
                f"{live.name} will have {has + planned[live]} tokens and has room for {room}: reserve, then plan"
            )
        empty += room - has - planned.get(live, 0)
    return empty


def check_copies(copies: Sequence[tuple[int, int]], running: Sequence[Live], blocks: Blocks) -> None:
    """Raises PartError for a copy of or to a block that does not exist, or onto one that two requests hold."""
    for source, target in copies:
        if not (0 <= source < blocks.total and 0 <= target < blocks.total):
            raise PartError(f"block {source} is to be copied to {target}: there are {blocks.total}, from 0 on")
        holders = [live.name for live in running if target in blocks.table(live)]
        need(len(holders) < 2, f"block {target}, which {' and '.join(holders)} hold, is to be written over by a copy")


def check_blocks(blocks: Blocks, running: Sequence[Live], others: Sequence[Live], one_by_one: bool) -> int:
    """How many blocks the running requests hold. Raises PartError unless these and the free ones are all there are.

    others: requests that must hold none. one_by_one: look at every block, not at their number alone.
    """
    tables = [blocks.table(live) for live in running]
    held = sum(map(len, tables))
    if one_by_one or held + blocks.free != blocks.total:
        held = _distinct(blocks, running, tables)
        for live in others:
            need(
                not len(blocks.table(live)),
                f"{live.name} is {live.state} and holds {len(blocks.table(live))} blocks: a leak",
            )
        need(
            held + blocks.free == blocks.total,
            f"{held} blocks are held and {blocks.free} free, of {blocks.total}: "
            + ("a leak" if held + blocks.free < blocks.total else "some are free and held at once"),
        )
    return held


def _distinct(blocks: Blocks, running: Sequence[Live], tables: list[Sequence[int]]) -> int:
    owner: dict[int, Live] = {}
    for live, table in zip(running, tables, strict=True):
        need(len(set(table)) == len(table), f"the table of {live.name} names a block twice")
        for block in table:
            if not 0 <= block < blocks.total:
                raise PartError(f"the table of {live.name} names block {block}: there are {blocks.total}, from 0 on")
            other = owner.setdefault(block, live)
            if other is not live and not blocks.shares:
                raise PartError(f"block {block} is in the tables of {other.name} and {live.name}")
    return len(owner)


def _whole(tokens: object) -> bool:
    return isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 1


def _name(live: object) -> str:
    return live.name if isinstance(live, Live) else repr(live)
