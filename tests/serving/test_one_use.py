"""The engine as its user meets it: a scheduler of one's own, a trace, a card, a table."""

import torch

from gpulab.serving import (
    Budget,
    Chunked,
    Continuous,
    Decoder,
    Paged,
    Plan,
    Roofline,
    Static,
    azure,
    compare,
    poisson,
    serve,
)


class OneAtATime:
    """A scheduler of one's own: who came first has the card to himself."""

    def plan(self, waiting, running, blocks, budget):
        plan = Plan()
        first = (running + waiting)[0]
        tokens = min(first.left, budget.tokens)
        if blocks.reserve(first, tokens):
            plan.tokens[first] = tokens
        return plan


def test_a_scheduler_of_ones_own_beside_the_references():
    clock = Roofline("A100", "Llama 2 7B")
    trace = poisson(60, per_s=20, prompt=(20, 400), writes=(1, 100), most=128, seed=1)
    reports = {}
    for scheduler in (OneAtATime(), Static(), Continuous(), Chunked()):
        blocks = Paged(clock.slots // 16, size=16)
        reports[type(scheduler).__name__] = serve(
            trace, scheduler, blocks, clock, budget=Budget(tokens=512, requests=32)
        )
    rate = {name: report.tokens_per_s for name, report in reports.items()}
    assert rate["OneAtATime"] < rate["Static"] < rate["Continuous"]
    for report in reports.values():
        assert {o.name: o.told for o in report.outcomes} == {r.name: r.writes for r in trace}
    lines = compare(reports).splitlines()
    assert max(map(len, lines)) <= 80 and all(name in lines[0] for name in reports)


def test_a_trace_of_a_real_server_and_its_metrics():
    clock = Roofline("A100", "Llama 2 7B")
    report = serve(
        azure("conversation")[:100], Chunked(), Paged(clock.slots // 16, size=16), clock, budget=Budget(tokens=2048)
    )
    assert report.finished == 100 and report.ttft_us.shape == (100,)
    p50, p99 = report.percentiles(report.gaps_us, 50, 99)
    assert 0 < p50 <= p99 == report.percentiles(report.gaps_us, 99)[0]
    assert 0 <= report.kv_waste < 0.1 and report.goodput(ttft_us=1e9, tpot_us=1e9) == report.requests_per_s
    assert "modelled" in report.table() and max(map(len, report.table().splitlines())) <= 80


def test_the_same_engine_computes_the_tokens_of_a_small_model():
    torch.manual_seed(0)
    trace = poisson(5, per_s=50, prompt=(3, 12), writes=(2, 6), most=8, seed=2, vocabulary=33)
    blocks = Paged(64, size=4)
    report = serve(trace, Chunked(), blocks, model=Decoder.tiny(blocks), budget=Budget(tokens=8, requests=3))
    assert [len(o.output) for o in report.outcomes] == [r.writes for r in trace]
    assert report.busy_us > 0 and "measured" in report.table()
