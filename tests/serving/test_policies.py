"""The references against each other, on a modelled A100: in the directions that the papers report, not by their factors."""

from dataclasses import replace

import pytest

from gpulab.serving import (
    Budget,
    Chunked,
    Contiguous,
    Continuous,
    Paged,
    Roofline,
    Static,
    azure,
    long_among_short,
    poisson,
    serve,
)

SEVEN, THIRTEEN = Roofline("A100", "Llama 2 7B"), Roofline("A100", "Llama 2 13B")


def run(scheduler, trace, tokens=8192, requests=64, clock=SEVEN):
    return serve(trace, scheduler, Paged(clock.slots // 16, size=16), clock, budget=Budget(tokens, requests))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_continuous_batching_serves_more_than_static(seed):
    """Orca: outputs of unlike lengths leave places empty in a batch that drains."""
    trace = poisson(150, per_s=1000, prompt=(20, 200), writes=(1, 300), most=300, seed=seed)
    static, continuous = (run(scheduler, trace, requests=32) for scheduler in (Static(), Continuous()))
    assert continuous.tokens_per_s > 1.4 * static.tokens_per_s
    assert continuous.makespan_us < static.makespan_us and continuous.idle_slots < static.idle_slots - 0.1
    assert continuous.percentiles(continuous.ttft_us, 50) < static.percentiles(static.ttft_us, 50)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_chunks_bound_the_longest_gap_between_tokens(seed):
    """Sarathi: a prompt computed at once stalls everyone who decodes, a chunk of it does not."""
    shape = dict(prompt=(50, 300), long=(3500, 4000), every=6, writes=(20, 200), most=256)
    trace = long_among_short(120, per_s=6, **shape, seed=seed)
    whole, chunks = run(Continuous(), trace), run(Chunked(), trace, tokens=512)
    longest_step = SEVEN.step_us([(512, 4000), *[(1, 4256)] * 64])
    assert whole.gaps_us.max() > 4 * chunks.gaps_us.max() and chunks.gaps_us.max() <= longest_step
    assert chunks.tokens_per_s > 0.95 * whole.tokens_per_s
    assert chunks.percentiles(chunks.ttft_us, 90) > whole.percentiles(whole.ttft_us, 90), (
        "the price: a first token comes later"
    )


def test_pages_let_more_requests_run_at_once_than_pieces_for_the_longest():
    """vLLM: lengths are not known beforehand. Its paper finds 20.4 % to 38.2 % of the cache filled in the systems before it."""
    trace = [replace(request, arrival_us=request.arrival_us / 4) for request in azure("conversation")[:150]]
    pieces, pages = (
        serve(trace, Continuous(), blocks, THIRTEEN, budget=Budget(8192, 256))
        for blocks in (Contiguous(THIRTEEN.slots), Paged(THIRTEEN.slots // 16, size=16))
    )
    most = [max(step.running for step in report.steps) for report in (pieces, pages)]
    assert most[1] > 2 * most[0] and pages.tokens_per_s > 1.2 * pieces.tokens_per_s
    assert pieces.kv_waste > 0.5 and pages.kv_waste < 0.02 and pieces.preemptions == 0


def test_larger_chunks_serve_more_and_stall_longer():
    trace = long_among_short(
        60, per_s=6, prompt=(50, 300), long=(3500, 4000), every=6, writes=(20, 200), most=256, seed=4
    )
    reports = [run(Chunked(), trace, tokens) for tokens in (256, 1024, 4096)]
    gaps = [report.gaps_us.max() for report in reports]
    firsts = [report.percentiles(report.ttft_us, 90) for report in reports]
    assert gaps == sorted(gaps) and firsts[2] < firsts[0]
