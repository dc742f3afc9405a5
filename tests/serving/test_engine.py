"""The loop by hand: who comes, who goes, and when tokens come."""

import pytest

from gpulab.serving import Budget, Chunked, Contiguous, Continuous, Engine, Paged, Static, serve
from tests.serving.parts import Flat, asks


def test_tokens_come_when_steps_end():
    report = serve([asks("a", 4, 3), asks("b", 2, 1, at=10_000.0)], Continuous(), Paged(8, 4), Flat())
    a, b = report.outcomes
    assert a.token_us == [1040.0, 2050.0, 3060.0] and a.state == "finished" and a.ended_us == 3060.0
    assert b.first_us == 10_000.0 and b.token_us == [11_020.0]
    assert [step.tokens for step in report.steps] == [4, 1, 1, 2]
    assert report.busy_us == 3060 + 1020 and report.makespan_us == 11_020


def test_a_prompt_in_chunks_tells_once_it_is_whole():
    report = serve([asks("a", 10, 2)], Chunked(), Paged(8, 4), Flat(), budget=Budget(tokens=4))
    assert [step.tokens for step in report.steps] == [4, 4, 2, 1]
    assert report.outcomes[0].token_us == [1040 + 1040 + 1020, 1040 + 1040 + 1020 + 1010]


def test_decodes_go_before_chunks():
    seen = []

    class Watched(Chunked):
        def plan(self, *given):
            plan = super().plan(*given)
            seen.append({live.name: tokens for live, tokens in plan.tokens.items()})
            return plan

    serve([asks("a", 2, 4), asks("b", 12, 1, at=1.0)], Watched(), Paged(8, 4), Flat(), budget=Budget(tokens=4))
    assert seen == [{"a": 2}, {"a": 1, "b": 3}, {"a": 1, "b": 3}, {"a": 1, "b": 3}, {"b": 3}]


def test_what_is_preempted_is_computed_anew():
    """Four blocks of two: both prompts fit, their outputs do not."""
    report = serve([asks("a", 3, 5), asks("b", 3, 5)], Continuous(), Paged(4, 2), Flat())
    a, b = report.outcomes
    assert report.finished == 2 and (a.preemptions, b.preemptions) == (0, 1) and b.told == 5
    assert sum(step.tokens for step in report.steps) > 2 * (3 + 4)
    assert b.token_us == sorted(b.token_us) and b.first_us == 0.0


@pytest.mark.parametrize("scheduler", [Continuous(), Chunked()])
def test_nobody_takes_the_room_of_the_preempted_before_him(scheduler):
    """Five blocks of two: in the third step a takes the last, b has to go, and c, which waits, would fit."""
    report = serve([asks("a", 3, 5), asks("b", 3, 5), asks("c", 1, 1, at=1500.0)], scheduler, Paged(5, 2), Flat())
    assert [step.preempted for step in report.steps[:4]] == [0, 0, 1, 0] and report.steps[2].begin_us == 2080.0
    assert report.outcomes[2].first_us > 2080.0 and report.steps[2].requests == 1


def test_time_does_not_go_back_to_who_came_during_the_last_step():
    report = serve([asks("a", 4, 1), asks("b", 4, 1, at=500.0)], Continuous(), Paged(4, 2), Flat())
    assert [step.begin_us for step in report.steps] == [0.0, 1040.0]


def test_a_client_that_leaves_gets_nothing_more_and_frees_its_blocks():
    blocks = Paged(16, 4)
    trace = [asks("a", 4, 50, leaves_us=5000.0), asks("b", 4, 50), asks("c", 4, 1, leaves_us=10.0)]
    report = serve(trace, Continuous(), blocks, Flat(), budget=Budget(requests=2))
    a, b, c = report.outcomes
    assert a.state == "aborted" and 0 < a.told < 50 and max(a.token_us) < 5000 <= a.ended_us
    assert c.state == "aborted" and c.told == 0 and c.first_us is None
    assert b.state == "finished" and blocks.free == 16 and report.aborted == 2


def test_who_can_never_fit_and_who_comes_to_a_full_queue_is_refused():
    report = serve([asks("long", 30, 4), asks("b", 4, 29)], Chunked(), Paged(8, 4), Flat())
    assert [o.state for o in report.outcomes] == ["refused", "finished"]
    report = serve([asks(name) for name in "abcd"], Chunked(), Paged(8, 4), Flat(), queue=3)
    assert [o.state for o in report.outcomes] == [*["finished"] * 3, "refused"] and report.refused == 1


def test_the_engine_step_by_step_as_a_server_drives_it():
    engine = Engine(Continuous(), Paged(8, 4), Flat())
    assert not engine.busy and engine.step() == []
    engine.submit(asks("a", 4, 3))
    assert [live.name for live in engine.step()] == ["a"]
    engine.submit(asks("b", 4, 3, at=engine.now_us))
    assert [live.name for live in engine.step()] == ["a", "b"]
    engine.abort("b")
    engine.submit(asks("c", at=engine.now_us))
    engine.abort("c")
    engine.abort("nobody")
    while engine.busy:
        engine.step()
    assert [o.state for o in engine.report().outcomes] == ["finished", "aborted", "aborted"] and engine.blocks.free == 8


def test_static_waits_for_the_slowest_and_continuous_does_not():
    trace = [asks("a", 2, 20), asks("b", 2, 2), asks("c", 2, 2)]
    first = {}
    for scheduler in (Static(), Continuous()):
        first[type(scheduler)] = (
            serve(trace, scheduler, Paged(16, 4), Flat(), budget=Budget(requests=2)).outcomes[2].first_us
        )
    assert first[Static] > 20_000 and first[Continuous] < 4000


def test_a_static_batch_is_filled_over_several_steps_before_it_decodes():
    report = serve(
        [asks(name, 4, 3) for name in "abcde"], Static(size=4), Paged(16, 4), Flat(), budget=Budget(tokens=8)
    )
    assert [step.tokens for step in report.steps] == [8, 8, 4, 4, 4, 1, 1]


def test_who_found_no_room_in_a_static_batch_waits_for_the_next():
    report = serve([asks("a", 2, 8), asks("b", 2, 2), asks("c", 2, 2)], Static(), Contiguous(13), Flat())
    a, b, c = report.outcomes
    assert b.ended_us < a.ended_us == c.first_us


@pytest.mark.parametrize("total", [40, 41])
def test_contiguous_takes_the_first_gap_that_is_wide_enough(total):
    blocks = Contiguous(total)
    report = serve([asks("a", 8, 3), asks("b", 8, 13), asks("c", 16, 6)], Continuous(), blocks, Flat())
    a, b, c = report.outcomes
    # a's 10 places are free when it ends, and too narrow for c's 21; so are the 10 or 11 after b, at its side.
    assert c.first_us >= b.ended_us and report.preemptions == 0 and blocks.free == total
