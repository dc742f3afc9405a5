"""Tests that settle the claims of the chapter "Serving engines", one per claim."""

import numpy as np
import torch
from torch import nn

from gpulab.serving import (
    Budget,
    Chunked,
    Continuous,
    Decoder,
    Paged,
    Request,
    Roofline,
    Static,
    poisson,
    serve,
)
from gpulab.serving.pools import exposed_us, sent_us

SEVEN = Roofline("A100", "Llama 2 7B")


def run(trace, scheduler, most=64, slots=SEVEN.slots, clock=SEVEN):
    return serve(trace, scheduler, Paged(slots // 16, 16), clock, budget=Budget(8192, most))


def even_gbit_per_s(clock, tokens):
    """The link on which sending the keys and values of a prompt takes as long as computing them."""
    return sent_us(clock, tokens, 1) / clock.step_us([(tokens, 0)])


def test_a_transfer_hides_behind_the_prefill_from_a_rate_on_that_falls_for_very_long_prompts():
    rates = [even_gbit_per_s(SEVEN, tokens) for tokens in (512, 1024, 2048, 4096)]
    assert max(rates) < 1.1 * min(rates) and 60 < min(rates) and max(rates) < 80
    longer = [even_gbit_per_s(SEVEN, tokens) for tokens in (8192, 32768, 131072)]
    assert min(rates) > longer[0] > 1.3 * longer[1] > 2 * longer[2]
    for tokens in (512, 4096):
        prefill = SEVEN.step_us([(tokens, 0)])
        assert exposed_us(SEVEN, tokens, 100) < prefill / 20 and exposed_us(SEVEN, tokens, 10) > 5 * prefill
    assert even_gbit_per_s(Roofline("A100", "Llama 3.1 8B", "bf16"), 2048) < rates[2] / 3
    assert even_gbit_per_s(Roofline("H100", "Llama 2 7B"), 2048) > 2 * rates[2]


def test_which_setting_is_best_depends_on_the_limit():
    """At a load beyond what the card can do. Below it, a budget that fits the limit on gaps serves both."""
    dials = {"whole": (Continuous(), Budget(8192, 256)), "chunks": (Chunked(), Budget(160, 48))}

    def kept(per_s):
        """Goodput under 10 s and 20 ms, and under 1 s and 100 ms."""
        trace = poisson(40 * per_s, per_s, prompt=(50, 1500), writes=(1, 400), most=512, seed=7)
        reports = {
            name: serve(trace, rule, Paged(SEVEN.slots // 16, 16), SEVEN, budget=budget)
            for name, (rule, budget) in dials.items()
        }
        return [
            {name: report.goodput(*limits) for name, report in reports.items()}
            for limits in ((10e6, 20e3), (1e6, 100e3))
        ]

    steady, soon = kept(10)
    assert steady["chunks"] > 1.5 * steady["whole"] and soon["whole"] > 1.5 * soon["chunks"]
    steady, soon = kept(8)
    assert steady["chunks"] > 1.5 * steady["whole"] and soon["chunks"] > 0.95 * soon["whole"]


def asked(lengths):
    ids = torch.randint(0, 33, (len(lengths), 6), generator=torch.Generator().manual_seed(0)).tolist()
    return [
        Request(f"r{n}", 0.0, tuple(prompt), wrote) for n, (prompt, wrote) in enumerate(zip(ids, lengths, strict=True))
    ]


def computed(lengths, scheduler, most):
    """TinyVLA's decoder, timed on this machine: no clock."""
    blocks = Paged(64, 8)
    return serve(asked(lengths), scheduler, blocks, model=Decoder.tiny(blocks), budget=Budget(512, most))


def test_batching_by_step_saves_steps_where_answers_are_unlike_and_none_where_they_are_alike():
    unlike, alike = [2, 30, 3, 4, 2, 3, 30, 2, 4, 3, 2, 30, 3, 4, 2, 2], [8] * 16
    alone, static, step = (
        len(computed(unlike, rule, most).steps) for rule, most in ((Continuous(), 1), (Static(), 4), (Continuous(), 4))
    )
    assert alone == sum(unlike) and static > 1.5 * step and alone > 3 * step
    both = [computed(alike, rule, 4) for rule in (Static(), Continuous())]
    assert len(both[0].steps) == len(both[1].steps)
    assert all(len(o.output) == 8 for report in both for o in report.outcomes)


class Hosted:
    """The card, and a host that takes ``us`` between two steps."""

    def __init__(self, us):
        self.us = us

    def step_us(self, work):
        return SEVEN.step_us(work) + self.us


def test_four_causes_of_a_rate_that_does_not_rise_look_different():
    busy = poisson(160, 12, prompt=(20, 1000), writes=(1, 300), most=300, seed=4)
    idle = poisson(10, 0.1, prompt=(20, 1000), writes=(1, 300), most=300, seed=4)
    seen = {}
    for cause, trace, most, slots, host in (
        ("places", busy, 2, SEVEN.slots, 0),
        ("cache", busy, 64, 6000, 0),
        ("host", busy, 64, SEVEN.slots, 40e3),
        ("load", idle, 64, SEVEN.slots, 0),
    ):
        r = run(trace, Continuous(), most, slots, Hosted(host))
        us = np.array([step.us for step in r.steps])
        filled = (us * [step.reserved for step in r.steps]).sum() / us.sum() / slots
        waiting = (us * [step.waiting for step in r.steps]).sum() / r.makespan_us
        seen[cause] = ((us - host).sum() / r.makespan_us, filled, waiting, r.preemptions)
    kernel, filled, waiting, preempted = ({cause: row[i] for cause, row in seen.items()} for i in range(4))
    assert kernel["places"] > 0.99 and kernel["cache"] > 0.99 and kernel["host"] < 0.5 and kernel["load"] < 0.3
    assert filled["cache"] > 0.8 and preempted["cache"] > 0 and filled["places"] < 0.1 and preempted["places"] == 0
    assert waiting["load"] < 0.01 and min(waiting["places"], waiting["cache"], waiting["host"]) > 1


def test_a_short_prompt_stalls_nobody_and_a_long_one_everybody():
    decodes = [(1, 500)] * 32
    alone = SEVEN.step_us(decodes)
    assert SEVEN.step_us([*decodes, (100, 0)]) < 1.15 * alone
    assert SEVEN.step_us([*decodes, (3500, 0)]) > 10 * alone


def scores_over_cache(queries):
    """PyTorch's own attention, written out: bytes of the scores over those of keys and values, 64 numbers a head."""
    q, k, v = (torch.randn(4, tokens, 64) for tokens in (queries, 1024, 1024))
    scores = q @ k.mT
    fused = nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(fused, (scores / 8).softmax(-1) @ v, atol=1e-5)
    return scores.nbytes / (k.nbytes + v.nbytes)


def test_scores_of_decode_are_small_beside_keys_and_values_and_those_of_a_prompt_are_not():
    assert scores_over_cache(1) < 0.01 and scores_over_cache(1024) > 5
