"""Whatever arrives: nothing leaks, nobody starves, every token is told once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gpulab.serving import Budget, Chunked, Contiguous, Continuous, Paged, Request, Static, serve
from tests.serving.parts import Flat


@st.composite
def traces(sampler):
    requests = []
    for number in range(sampler(st.integers(1, 12))):
        most = sampler(st.integers(1, 30))
        leaves = sampler(st.one_of(st.none(), st.none(), st.floats(1, 60_000)))
        arrival = sampler(st.sampled_from([0.0, 500.0, 1040.0, 20_000.0, 100_000.0]) | st.floats(0, 50_000))
        prompt, writes = sampler(st.integers(1, 40)), sampler(st.integers(1, most))
        requests.append(Request(f"r{number}", arrival, prompt, most, writes, leaves_us=leaves))
    return requests


@st.composite
def engines(sampler, longest):
    """A scheduler, blocks and a budget that can serve requests of ``longest`` tokens."""
    scheduler = sampler(st.sampled_from([Static, Continuous, Chunked]))
    size = sampler(st.integers(1, 8))
    blocks = sampler(st.sampled_from([Paged, Contiguous]))(sampler(st.integers(1, 40)), size)
    tokens = sampler(st.integers(1, 60)) if scheduler is Chunked else longest + sampler(st.integers(0, 60))
    return scheduler(), blocks, Budget(tokens, sampler(st.integers(1, 8)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_request_ends_with_its_tokens_and_every_block_comes_back(data):
    trace = data.draw(traces())
    scheduler, blocks, budget = data.draw(engines(max(r.prompt_tokens + r.most for r in trace)))
    report = serve(trace, scheduler, blocks, Flat(), budget=budget)
    assert blocks.free == blocks.total
    for request, outcome in zip(trace, report.outcomes, strict=True):
        fits = -(-(request.prompt_tokens + request.most - 1) // blocks.size) <= blocks.total
        assert (outcome.state == "refused") == (not fits)
        assert outcome.state in ("finished", "refused") or request.leaves_us is not None
        assert outcome.told == request.ends_after if outcome.state == "finished" else outcome.told <= request.ends_after
        assert all(later > sooner for sooner, later in zip(outcome.token_us, outcome.token_us[1:], strict=False))
        assert not outcome.told or outcome.token_us[0] > outcome.first_us >= outcome.arrival_us
    in_order(report)
    conserved(trace, report)
    assert all(
        later.begin_us >= step.begin_us + step.us for step, later in zip(report.steps, report.steps[1:], strict=False)
    )


def in_order(report):
    """Nobody is overtaken on the way in: first come, first begun."""
    begun = [o for o in sorted(report.outcomes, key=lambda o: o.arrival_us) if o.first_us is not None]
    assert [o.first_us for o in begun] == sorted(o.first_us for o in begun)


def conserved(trace, report):
    """Tokens computed are those of prompts and outputs, no more unless someone was preempted or left."""
    expected = sum(
        r.prompt_tokens + r.ends_after - 1 for r, o in zip(trace, report.outcomes, strict=True) if o.state == "finished"
    )
    done = sum(step.tokens for step in report.steps)
    assert done >= expected and (done == expected or report.preemptions or report.aborted)
    for step in report.steps:
        assert step.tokens <= report.budget.tokens and step.requests <= step.running <= report.budget.requests
        assert step.stored <= step.reserved


@settings(max_examples=60, deadline=None)
@given(traces(), st.integers(1, 40))
def test_the_same_trace_gives_the_same_run(trace, budget):
    first, second = (serve(trace, Chunked(), Paged(40, 4), Flat(), budget=Budget(budget)) for _ in range(2))
    assert first.steps == second.steps and first.outcomes == second.outcomes
