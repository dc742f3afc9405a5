"""The serving loop: requests arrive, the scheduler plans a step, the clock says how long it takes, requests are given their tokens."""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable

from gpulab.serving.blocks.blocks import Blocks, blocks_for
from gpulab.serving.clocks.clock import Clock, Work
from gpulab.serving.model.model import Model
from gpulab.serving.plan import Budget, Plan, Scheduler
from gpulab.serving.record import Outcome, Step
from gpulab.serving.report import Report
from gpulab.serving.requests import Live, Request, change
from gpulab.serving.rules import PartError, check_blocks, check_copies, check_plan, check_room, need

SMALL, OFTEN = 1024, 64
"""An allocator of so many blocks is looked at block by block after every step, a larger one after so many steps."""


def serve(
    trace: Iterable[Request],
    scheduler: Scheduler,
    blocks: Blocks,
    clock: Clock | None = None,
    *,
    model: Model | None = None,
    budget: Budget | None = None,
    queue: int | None = None,
) -> Report:
    """Run a trace to its end. Arguments as of :class:`Engine`; raises as its ``step`` does."""
    engine = Engine(scheduler, blocks, clock, model=model, budget=budget, queue=queue)
    for request in trace:
        engine.submit(request)
    while engine.busy:
        engine.step()
    return engine.report()


class Engine:
    """A serving engine with its parts put in.

    clock, model: at least one; see the package. budget: of one step. queue: requests that may wait at most; who comes then
    is refused, as is one that could not fit into the empty cache. ``now_us`` moves with the steps, and jumps to the next
    arrival when nobody is there. keep: so many steps and ended requests are remembered, None for all: an engine that lives
    long has to forget. ended: is told of each request when it ends.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        blocks: Blocks,
        clock: Clock | None = None,
        *,
        model: Model | None = None,
        budget: Budget | None = None,
        queue: int | None = None,
        keep: int | None = None,
        ended: Callable[[Live], None] | None = None,
    ) -> None:
        if clock is None and model is None:
            raise ValueError("an engine needs a clock, a model, or both")
        self.scheduler, self.blocks, self.clock, self.model = scheduler, blocks, clock, model
        self.budget, self.queue, self.now_us = budget or Budget(), queue, 0.0
        self.waiting: list[Live] = []
        self.running: list[Live] = []
        self.steps: deque[Step] = deque(maxlen=keep)
        self._keep, self._told_ended, self._over = keep, ended, deque()
        self._outcomes: dict[str, Outcome] = {}
        self._requests: dict[str, Request] = {}
        self._coming: list[tuple[float, int, Request]] = []
        self._leaving: list[tuple[float, str]] = []
        self._number, self._count, self._silent, self._empty, self._preempted = (
            itertools.count(),
            itertools.count(),
            0,
            0,
            0,
        )

    @property
    def busy(self) -> bool:
        """Whether someone is there or will come."""
        return bool(self.waiting or self.running or self._coming)

    def submit(self, request: Request) -> None:
        """Take a request, for the moment when it arrives. Raises ValueError for a name that is known, or no token ids."""
        if request.name in self._requests:
            raise ValueError(f"two requests are called {request.name}")
        if self.model is not None and isinstance(request.prompt, int):
            raise ValueError(f"{request.name} has a number for a prompt: a model needs its token ids")
        self._requests[request.name], self._outcomes[request.name] = request, Outcome.of(request)
        heapq.heappush(self._coming, (request.arrival_us, next(self._number), request))

    def abort(self, name: str) -> None:
        """The client has gone: end the request, give its blocks back. One that has ended or is not known is no error."""
        if name not in self._outcomes or self._outcomes[name].ended_us is not None:
            return
        for queue in (self.waiting, self.running):
            for live in queue:
                if live.name == name:
                    queue.remove(live)
                    return self._end(live, "aborted")
        self._coming = [coming for coming in self._coming if coming[2].name != name]
        heapq.heapify(self._coming)
        self._end(Live.of(self._requests[name]), "aborted")

    def step(self) -> list[Live]:
        """Plan, compute, tell: one step; returns whom it told a token. Without anyone there it only waits for who comes next.

        Raises PartError where a part breaks a rule.
        """
        self._arrive()
        if not (self.waiting or self.running):
            return []
        work = self._plan()
        tokens, us = self._compute(work)
        self._record(work, us)
        self.now_us += us
        for item in work:
            change(item.live, computed=item.context + item.new)
        self._leave()
        told = [item.live for item, token in zip(work, tokens, strict=True) if self._tell(item.live, token)]
        self._count_silence(told)
        self._audit(one_by_one=self.blocks.total <= SMALL or next(self._count) % OFTEN == 0 or not self.busy)
        return told

    def report(self) -> Report:
        """What happened so far."""
        modelled = self.clock is not None or self.model.modelled
        return Report(list(self._outcomes.values()), list(self.steps), self.budget, modelled)

    def _arrive(self) -> None:
        if not (self.waiting or self.running) and self._coming:
            self.now_us = max(self.now_us, self._coming[0][0])
        while self._coming and self._coming[0][0] <= self.now_us:
            request = heapq.heappop(self._coming)[2]
            live = Live.of(request)
            full = self.queue is not None and len(self.waiting) >= self.queue
            if full or blocks_for(live.longest, self.blocks.size) > self.blocks.total:
                self._end(live, "refused")
                continue
            self.waiting.append(live)
            if request.leaves_us is not None:
                heapq.heappush(self._leaving, (request.arrival_us + request.leaves_us, request.name))
        self._leave()

    def _leave(self) -> None:
        while self._leaving and self._leaving[0][0] <= self.now_us:
            self.abort(heapq.heappop(self._leaving)[1])

    def _plan(self) -> list[Work]:
        """Ask the scheduler, and carry out what it says."""
        self._find()
        plan = self.scheduler.plan(list(self.waiting), list(self.running), self.blocks, self.budget)
        check_plan(plan, self.waiting, self.running, self.budget)
        self._preempt(plan)
        new = [live for live in plan.tokens if live.state == "waiting"]
        for live in new:
            change(live, state="running")
            outcome = self._outcomes[live.name]
            if outcome.first_us is None:
                outcome.first_us, outcome.found = self.now_us, live.computed
        if new:
            self.waiting = [live for live in self.waiting if live.state == "waiting"]
            self.running += new
        self._empty, self._preempted = check_room(plan, self.running, self.blocks), len(plan.preempt)
        self._copy()
        return [Work(live, tokens, live.computed) for live, tokens in plan.tokens.items()]

    def _find(self) -> None:
        """Who could be let in now may find a beginning that another computed."""
        for live in self.waiting[: self.budget.requests] if self.blocks.shares else ():
            tokens = self.blocks.found(live)
            if not 0 <= tokens < live.tokens:
                said = f"the allocator finds {tokens} tokens of {live.name}, which has {live.tokens}"
                raise PartError(f"{said}: the last is never found")
            change(live, computed=tokens)

    def _copy(self) -> None:
        """What the allocator wants copied before anything is computed; without a model there is nothing to copy."""
        copies = self.blocks.copies() if self.blocks.shares and hasattr(self.blocks, "copies") else ()
        check_copies(copies, self.running, self.blocks)
        if copies and self.model is not None:
            self.model.copy(copies)

    def _preempt(self, plan: Plan) -> None:
        for live in plan.preempt:
            self.blocks.release(live)
            self.running.remove(live)
            self.waiting.insert(0, live)
            change(live, state="waiting", computed=0, preemptions=live.preemptions + 1)
            self._outcomes[live.name].preemptions += 1

    def _compute(self, work: list[Work]) -> tuple[list[int | None], float]:
        """The tokens that follow, None where they are only counted, and the step's microseconds."""
        tokens = [None] * len(work) if self.model is None else self.model.step(work)
        need(len(tokens) == len(work), f"the model gave {len(tokens)} tokens for {len(work)} requests")
        us = (
            self.model.elapsed_us
            if self.clock is None
            else self.clock.step_us([(item.new, item.context) for item in work])
        )
        need(us > 0 and math.isfinite(us), f"a step took {us} us by the clock; expected more than 0")
        return tokens, us

    def _record(self, work: list[Work], us: float) -> None:
        held = check_blocks(self.blocks, self.running, self.waiting, one_by_one=False)
        new = sum(item.new for item in work)
        reserved = held * self.blocks.size
        there = (len(self.waiting), len(self.running), reserved, reserved - self._empty)
        self.steps.append(Step(self.now_us, us, new, len(work), *there, self._preempted))

    def _tell(self, live: Live, token: int | None) -> bool:
        """Whether a token of it came: all its tokens are computed, and the client is still there."""
        if live.left or live.state != "running":
            return False
        if self.model is not None and token is None:
            raise PartError(f"the model gave {live.name} no token, and all before it are computed")
        outcome, request = self._outcomes[live.name], self._requests[live.name]
        outcome.token_us.append(self.now_us)
        if token is not None:
            outcome.output.append(token)
        change(live, told=live.told + 1, ids=live.ids if token is None else (*live.ids, token))
        if live.told == request.ends_after:
            self.running.remove(live)
            self._end(live, "finished")
        return True

    def _end(self, live: Live, state: str) -> None:
        self.blocks.release(live)
        change(live, state=state)
        need(
            not len(self.blocks.table(live)), f"{live.name} is {state}, was released, and its table still names blocks"
        )
        outcome = self._outcomes[live.name]
        outcome.state, outcome.ended_us = state, self.now_us
        self._over.append(live.name)
        while self._keep is not None and len(self._over) > self._keep:
            name = self._over.popleft()
            del self._outcomes[name], self._requests[name]
        if self._told_ended is not None:
            self._told_ended(live)

    def _count_silence(self, told: list[Live]) -> None:
        """Steps since the last token: without preemption each takes some of what is left, so they end."""
        self._silent = 0 if told else self._silent + 1
        most = sum(live.longest for live in (*self.waiting, *self.running)) + 1 if self._silent > SMALL else math.inf
        need(
            self._silent <= most,
            f"livelock: no token came in {self._silent} steps; what is computed is preempted again",
        )

    def _audit(self, one_by_one: bool) -> None:
        check_blocks(self.blocks, self.running, self.waiting, one_by_one)
