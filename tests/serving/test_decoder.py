"""TinyVLA under the engine: the same tokens as alone, whoever schedules and wherever its keys lie."""

import numpy as np
import pytest
import torch

import gpulab.cuda
from gpulab.model import load
from gpulab.model.world import frames
from gpulab.serving import Budget, Chunked, Contiguous, Continuous, Paged, PartError, Static, poisson, serve
from gpulab.serving.model.attention import one_by_one
from gpulab.serving.model.decoder import Decoder
from gpulab.serving.model.robot import Actions, ask
from tests.serving.parts import CopiesOnWrite, Flat, Prefixes, asks

TRACE = poisson(8, per_s=300, prompt=(1, 20), writes=(1, 9), most=9, seed=5, vocabulary=33)


@torch.no_grad()
def alone(policy, prompt, count):
    """Its greedy tokens, everything computed anew for each: no cache, no batch."""
    ids = list(prompt)
    for _ in range(count):
        mask = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        hidden = policy.decode(policy.embed_tokens(torch.tensor([ids])), mask)
        ids.append(int(policy.lm_head(hidden[0, -1]).argmax()))
    return ids[len(prompt) :]


@pytest.fixture(scope="module")
def expected():
    policy = load(dtype=torch.float64)
    return [alone(policy, request.prompt, request.ends_after) for request in TRACE]


@pytest.mark.parametrize("scheduler", [Static, Continuous, Chunked])
@pytest.mark.parametrize(
    "blocks", [lambda: Paged(40, 4), lambda: Paged(64, 1), lambda: Contiguous(90), lambda: Paged(8, 4)]
)
def test_the_same_tokens_as_alone(scheduler, blocks, expected):
    blocks = blocks()
    model = Decoder.tiny(blocks, dtype=torch.float64)
    budget = Budget(7 if scheduler is Chunked else 64, 5)
    report = serve(TRACE, scheduler(), blocks, Flat(), model=model, budget=budget)
    assert [outcome.output for outcome in report.outcomes] == expected and report.modelled
    assert report.preemptions > 0 or blocks.total != 8


@pytest.mark.parametrize("scheduler", [Static, Continuous, Chunked])
def test_a_beginning_that_another_computed_changes_no_token(scheduler):
    """The place for an allocator that shares: what it finds is not computed again, and the tokens are the same."""
    start = tuple(range(12))
    trace = [asks(f"r{n}", (*start[: 4 * (3 - n % 4)], n, 1), 5, at=700.0 * n) for n in range(10)]
    policy = load(dtype=torch.float64)
    expected = [alone(policy, request.prompt, 5) for request in trace]
    for total in (40, 10):
        blocks = Prefixes(total, 4)
        model = Decoder.tiny(blocks, dtype=torch.float64)
        report = serve(
            trace, scheduler(), blocks, Flat(), model=model, budget=Budget(64 if scheduler is not Chunked else 5, 6)
        )
        assert [outcome.output for outcome in report.outcomes] == expected and blocks.free == total
        assert report.found_share > 0.1 and "of prompts, in the cache" in report.table() and 0 <= report.kv_waste < 1


@pytest.mark.parametrize("total", [60, 8])
def test_a_copy_is_made_before_the_last_token_of_a_prompt_that_is_all_there(total):
    prompts = [tuple(range(12)), tuple(range(8)), tuple(range(12)), tuple(range(12)), tuple(range(8))]
    trace = [asks(f"r{n}", prompt, 6, at=700.0 * n) for n, prompt in enumerate(prompts)]
    policy, blocks = load(dtype=torch.float64), CopiesOnWrite(total, 4)
    report = serve(trace, Continuous(), blocks, Flat(), model=Decoder.tiny(blocks, dtype=torch.float64))
    assert [outcome.output for outcome in report.outcomes] == [alone(policy, prompt, 6) for prompt in prompts]
    assert blocks.done > 0 and blocks.free == total and {outcome.found for outcome in report.outcomes} >= {7, 11}


@pytest.mark.parametrize("scheduler", [Static, Continuous, Chunked])
@pytest.mark.parametrize("blocks", [lambda: Paged(99, 4), lambda: Contiguous(60), lambda: Paged(12, 4)])
def test_robots_get_the_actions_that_the_policy_gives_alone(scheduler, blocks):
    """Camera and instruction; a prompt of 22 tokens that a chunk may not cut, and a word prompt among them that it may."""
    image, text, _ = (torch.from_numpy(part) for part in frames(7, np.random.default_rng(4)))
    policy, blocks = load(dtype=torch.float64), blocks()
    trace = [ask(f"robot {n}", 900.0 * n, image[n], text[n]) for n in range(7)] + [asks("words", (1,) * 20, 9, at=1.0)]
    model = Decoder.tiny(blocks, dtype=torch.float64, sampler=Actions())
    report = serve(
        trace, scheduler(), blocks, Flat(), model=model, budget=Budget(24 if scheduler is Chunked else 60, 5)
    )
    assert [o.output for o in report.outcomes[:7]] == policy.generate(image, text).tolist() and report.finished == 8


def test_without_a_clock_the_model_is_timed(expected):
    blocks = Paged(40, 4)
    report = serve(TRACE, Chunked(), blocks, model=Decoder.tiny(blocks, dtype=torch.float64))
    assert [outcome.output for outcome in report.outcomes] == expected
    assert not report.modelled and all(step.us > 0 for step in report.steps)


def test_on_the_virtual_card_time_is_the_cards(expected):
    with gpulab.cuda.use("virtual:A100", quiet=True):
        runs = []
        for _ in range(2):
            blocks = Paged(40, 4)
            runs.append(
                serve(TRACE[:3], Chunked(), blocks, model=Decoder.tiny(blocks, device="cuda", dtype=torch.float64))
            )
        assert [outcome.output for outcome in runs[0].outcomes] == expected[:3]
        assert runs[0].modelled and runs[0].busy_us > 0
        assert [step.us for step in runs[0].steps] == pytest.approx([step.us for step in runs[1].steps])


def test_an_attention_and_a_sampler_of_ones_own():
    seen = []

    def attention(queries, keys, values, spans):
        seen.append([(span.new, span.context, span.table.tolist()) for span in spans])
        assert keys.shape == values.shape == (10, 4, 2, 32) and queries.shape[1:] == (4, 32)
        return one_by_one(queries, keys, values, spans)

    def least(logits, lives):
        assert logits.shape == (len(lives), 33)
        return logits.argmin(-1)

    blocks = Paged(10, 4)
    model = Decoder.tiny(blocks, attention=attention, sampler=least)
    report = serve([asks("a", (1, 2, 3, 4, 5), 2)], Chunked(), blocks, Flat(), model=model)
    assert seen == [[(5, 0, [0, 1])]] * 4 + [[(1, 5, [0, 1])]] * 4
    assert (
        report.outcomes[0].output
        != serve([asks("a", (1, 2, 3, 4, 5), 2)], Chunked(), b := Paged(10, 4), Flat(), model=Decoder.tiny(b))
        .outcomes[0]
        .output
    )


def test_a_model_that_says_nothing_or_too_little():
    class Silent:
        elapsed_us, modelled = 1.0, False

        def step(self, work):
            return [None] * len(work)

    with pytest.raises(PartError, match="the model gave a no token"):
        serve([asks("a", (1, 2))], Chunked(), Paged(4, 4), model=Silent())
    with pytest.raises(PartError, match="0 tokens for 1 requests"):
        serve(
            [asks("a", (1, 2))], Chunked(), Paged(4, 4), model=type("Few", (Silent,), {"step": lambda self, work: []})()
        )
    with pytest.raises(ValueError, match="a number for a prompt"):
        serve([asks("a", 2)], Chunked(), Paged(4, 4), model=Silent())
