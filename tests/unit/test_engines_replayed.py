"""What a scheduler did in the learner's process, as the referee sees it."""

from exercises.engines.replay import replayed
from exercises.engines.run_played import played
from gpulab.serving import Chunked, Continuous, Plan

TRACE = [{"name": f"r{n}", "arrival_us": 500.0 * n, "prompt": 5 + n, "most": 4 + n % 3} for n in range(8)]
PLAY = {"trace": TRACE, "blocks": [10, 4], "budget": [16, 6], "clock": [1000.0, 10.0, 1.0]}


class Clumsy:
    """Plans for nobody in its third step, or what it was told."""

    def __init__(self, third) -> None:
        self._third, self._steps, self._good = third, 0, Chunked()

    def plan(self, waiting, running, blocks, budget):
        self._steps += 1
        return self._third(running) if self._steps == 3 else self._good.plan(waiting, running, blocks, budget)


def of(scheduler, play=PLAY):
    return replayed(play, played(lambda _: scheduler, [play])[0])


def raise_one(running):
    return 1 // 0


def test_a_replay_comes_to_the_same_end():
    for scheduler in (Continuous(), Chunked()):
        again = of(scheduler)
        assert again.problem is None and [one.told for one in again.report.outcomes] == [4, 5, 6, 4, 5, 6, 4, 5]
        assert sum(sum(decision.tokens.values()) for decision in again.decisions) == sum(
            step.tokens for step in again.report.steps
        )
        assert {call[0] for decision in again.decisions for call in decision.asked} >= {"reserve"}


def test_a_decision_says_how_all_stood_before_it():
    first, second = of(Chunked()).decisions[:2]
    assert [one.name for one in first.waiting] == ["r0"] and not first.running and first.free == 10
    assert (
        second.running[0].left == 1
        and second.running[0].told == 1
        and second.running[0].blocks == 2 == 10 - second.free
    )
    assert first.begin_us == 0 and second.begin_us == 1000 + 5 * 10 + 10


def test_what_the_scheduler_did_wrong_is_said():
    assert "answered NoneType" in of(Clumsy(lambda running: None)).problem
    assert "livelock" in of(Clumsy(lambda running: Plan())).problem.lower()
    assert "ZeroDivisionError" in of(Clumsy(raise_one)).problem
    assert "nor" in of(Clumsy(lambda running: Plan({"r0": 1}))).problem


def test_a_record_that_ends_early_is_a_problem():
    record = played(lambda _: Chunked(), [PLAY])[0]
    assert replayed(PLAY, record | {"steps": record["steps"][:-1]}).problem
    assert replayed(PLAY, record | {"steps": []}).problem
