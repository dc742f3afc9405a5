"""A part that breaks a rule is told which one, whoever wrote it."""

from dataclasses import FrozenInstanceError

import pytest

from gpulab.serving import Budget, Chunked, Continuous, Engine, Live, Paged, PartError, Plan, serve
from tests.serving.parts import Flat, Greedy, Keeps, Leaky, Prefixes, Shared, Twice, asks


def spoilt(spoil):
    return type("Spoilt", (Greedy,), {"spoil": staticmethod(spoil)})()


def of(plan, **tokens):
    for live in list(plan.tokens):
        if live.name in tokens:
            plan.tokens[live] = tokens[live.name]


def stranger(plan, *_):
    plan.tokens[Live("x", 0.0, 3, 1)] = 1


def unreserved(plan, waiting, running, blocks, budget):
    for live in plan.tokens:
        blocks.release(live)


def released(plan, waiting, running, blocks, budget):
    for live in running[:1]:
        blocks.release(live)
        plan.tokens.pop(live)


def preempts_the_waiting(plan, waiting, *_):
    plan.preempt += waiting


def preempts_and_goes_on(plan, waiting, running, *_):
    plan.preempt += running


def preempts_twice(plan, waiting, running, *_):
    for live in running[:1]:
        plan.tokens.pop(live)
        plan.preempt += [live, live]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda *_: "no plan", "answered str"),
        (lambda plan, *_: plan.tokens.clear(), "livelock"),
        (stranger, "gives tokens to x, which neither waits nor runs"),
        (lambda plan, *_: of(plan, a=0), "gives a 0 tokens"),
        (lambda plan, *_: of(plan, a=-1), "gives a -1 tokens"),
        (lambda plan, *_: of(plan, a=True), "gives a True tokens"),
        (lambda plan, *_: of(plan, a=1.0), "gives a 1.0 tokens"),
        (lambda plan, *_: of(plan, a=9), "9 tokens, it has"),
        (unreserved, "reserve, then plan"),
        (released, "lost blocks and was not preempted"),
        (preempts_the_waiting, "preempts a, which is not running"),
        (preempts_and_goes_on, "preempts a and gives it tokens"),
        (preempts_twice, "preempts a request twice"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(spoil, says):
    with pytest.raises(PartError, match=says):
        serve([asks("a"), asks("b")], spoilt(spoil), Paged(16, 4), Flat())


@pytest.mark.parametrize(
    ("budget", "says"), [(Budget(7, 9), "8 tokens, the budget of a step is 7"), (Budget(9, 1), "2 requests run")]
)
def test_a_plan_over_the_budget(budget, says):
    with pytest.raises(PartError, match=says):
        serve([asks("a"), asks("b")], Greedy(), Paged(16, 4), Flat(), budget=budget)


@pytest.mark.parametrize(
    ("allocator", "says"),
    [
        (Leaky, "a leak"),
        (Twice, "free and held at once|is in the tables of"),
        (Shared, "block 0 is in the tables|a leak"),
        (Keeps, "still names blocks"),
    ],
)
def test_an_allocator_that_loses_or_doubles_blocks(allocator, says):
    with pytest.raises(PartError, match=says):
        serve([asks("a"), asks("b", 9)], Greedy(), allocator(16, 4), Flat())


def test_room_for_someone_who_is_not_let_in_is_a_leak():
    def hoards(plan, waiting, *_):
        for live in waiting[1:]:
            plan.tokens.pop(live)

    with pytest.raises(PartError, match="b is waiting and holds 1 blocks"):
        serve([asks("a"), asks("b")], spoilt(hoards), Paged(16, 4), Flat())


def test_a_preempted_request_may_have_been_released_or_not():
    class Swings(Greedy):
        """Once, throws out everyone who runs, having released every second one."""

        done = False

        def plan(self, waiting, running, blocks, budget):
            plan = super().plan(waiting, [] if len(running) == 3 and not self.done else running, blocks, budget)
            if len(running) == 3 and not self.done:
                self.done = True
                plan.preempt += running
                blocks.release(running[1])
            return plan

    report = serve([*(asks(name) for name in "abc"), asks("d", at=500.0)], Swings(), Paged(16, 4), Flat())
    assert report.finished == 4 and report.preemptions == 3


def test_a_prompt_that_looks_at_itself_is_not_cut():
    cut = spoilt(lambda plan, *_: of(plan, a=3))
    with pytest.raises(PartError, match="cuts the prompt of a: it is whole, all 4 tokens"):
        serve([asks("a", whole=True)], cut, Paged(16, 4), Flat())


@pytest.mark.parametrize("tokens", [-1, 4])
def test_an_allocator_that_finds_what_cannot_be(tokens):
    finds = type("Finds", (Paged,), {"shares": True, "found": lambda self, live: tokens})
    with pytest.raises(PartError, match=f"finds {tokens} tokens of a, which has 4"):
        serve([asks("a")], Greedy(), finds(16, 4), Flat())


@pytest.mark.parametrize(
    ("copy", "says"), [((0, 16), "there are 16"), ((-1, 3), "there are 16"), ((3, 15), "a and b hold")]
)
def test_a_copy_that_cannot_be_made(copy, says):
    copies = type("Copies", (Prefixes,), {"copies": lambda self: [copy]})
    trace = [asks("a", (1, 2, 3, 4, 5)), asks("b", (1, 2, 3, 4, 6), at=1.0)]
    with pytest.raises(PartError, match=says):
        serve(trace, Greedy(), copies(16, 4), Flat())


def test_the_place_of_the_preempted_is_free_in_the_same_step():
    class Newest:
        """Whoever came last runs."""

        def plan(self, waiting, running, blocks, budget):
            last = max([*waiting, *running], key=lambda live: live.arrival_us)
            plan = Plan(preempt=[live for live in running if live is not last])
            blocks.reserve(last, last.left)
            plan.tokens[last] = last.left
            return plan

    report = serve([asks("a", 4, 5), asks("b", at=1.0)], Newest(), Paged(16, 4), Flat(), budget=Budget(requests=1))
    assert report.finished == 2 and report.preemptions == 1


def test_preempting_for_ever_is_a_livelock():
    class Thrashes:
        """Computes a token of one, throws him out for the other."""

        def plan(self, waiting, running, blocks, budget):
            plan = Plan(preempt=list(running))
            blocks.reserve(waiting[0], 1)
            plan.tokens[waiting[0]] = 1
            return plan

    with pytest.raises(PartError, match="livelock: no token came in"):
        serve([asks("a"), asks("b")], Thrashes(), Paged(16, 4), Flat())


def test_a_prompt_over_the_budget_is_a_livelock_unless_it_comes_in_chunks():
    with pytest.raises(PartError, match="livelock"):
        serve([asks("a", 20)], Continuous(), Paged(16, 4), Flat(), budget=Budget(8))
    assert serve([asks("a", 20)], Chunked(), Paged(16, 4), Flat(), budget=Budget(8)).finished == 1


@pytest.mark.parametrize("us", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clock_that_does_not_go_forward(us):
    clock = type("Stopped", (), {"step_us": lambda self, work: us})()
    with pytest.raises(PartError, match="expected more than 0"):
        serve([asks("a")], Greedy(), Paged(16, 4), clock)


def test_a_part_cannot_write_to_a_request():
    def writes(plan, waiting, *_):
        waiting[0].computed = 3

    with pytest.raises(FrozenInstanceError):
        serve([asks("a")], spoilt(writes), Paged(16, 4), Flat())


def test_no_part_is_told_how_much_a_request_will_write():
    live = Live.of(asks("a", 4, 9, writes=2, leaves_us=5.0))
    assert not {"writes", "leaves_us", "ends_after"} & set(dir(live))


@pytest.mark.parametrize(
    "wrong",
    [
        dict(prompt=0),
        dict(prompt=()),
        dict(most=0),
        dict(writes=0),
        dict(writes=4),
        dict(at=-1.0),
        dict(deadline_us=0.0),
        dict(leaves_us=-1.0),
    ],
)
def test_a_request_that_makes_no_sense(wrong):
    with pytest.raises(ValueError, match="a:"):
        asks("a", **wrong)


def test_what_the_engine_itself_is_asked():
    with pytest.raises(ValueError, match="a clock, a model"):
        Engine(Greedy(), Paged(4, 4))
    engine = Engine(Greedy(), Paged(4, 4), Flat())
    engine.submit(asks("a"))
    with pytest.raises(ValueError, match="two requests are called a"):
        engine.submit(asks("a"))
    for wrong in ((0, 4), (4, 0)):
        with pytest.raises(ValueError, match="hold"):
            Paged(*wrong)
        with pytest.raises(ValueError, match="at least"):
            Budget(*wrong)
