"""Cards in one pool or in two, with a link for each that computes prompts."""

import pytest

from gpulab.serving import Continuous, Paged, Request, Roofline, poisson, serve
from gpulab.serving.pools import Pools, exposed_us, highest_rate, in_time, sent_us

CLOCK = Roofline("A100", "Llama 2 7B")
FOUR = Pools(CLOCK, 4)
TRACE = poisson(40, 12, prompt=(50, 4000), writes=(1, 60), most=60, seed=3)


def layer_by_layer(tokens, gbit_per_s):
    """When the last layer has gone, from the end of the computation on."""
    layers, whole = CLOCK.shape.layers, sent_us(CLOCK, tokens, gbit_per_s)
    compute, gone = CLOCK.step_us([(tokens, 0)]) / layers, 0.0
    for layer in range(1, layers + 1):
        gone = max(gone, layer * compute) + whole / layers
    return gone - layers * compute


@pytest.mark.parametrize("gbit_per_s", [5, 50, 70, 400])
@pytest.mark.parametrize("tokens", [1, 500, 4000])
def test_exposed_is_what_a_pipeline_of_layers_leaves(tokens, gbit_per_s):
    assert exposed_us(CLOCK, tokens, gbit_per_s) == pytest.approx(layer_by_layer(tokens, gbit_per_s))


def test_a_token_of_llama_2_7b_is_half_a_mebibyte_and_crosses_10_gbit_per_s_in_419_microseconds():
    assert sent_us(CLOCK, 1, 10) == pytest.approx(2**19 * 8 / 10e9 * 1e6)


@pytest.mark.parametrize(
    "run",
    [FOUR.shared, lambda t: FOUR.split(t, 1), lambda t: FOUR.split(t, 3, 10)],
    ids=["shared", "1 + 3", "3 + 1 with a slow link"],
)
def test_every_request_gets_all_its_tokens_one_after_the_other_and_none_before_it_came(run):
    times = run(TRACE)
    assert [len(us) for us in times] == [request.writes for request in TRACE]
    assert all(us == sorted(us) and us[0] > r.arrival_us for us, r in zip(times, TRACE, strict=True))


def test_a_prompt_alone_tells_its_second_token_after_prefill_transfer_and_a_step():
    [times] = Pools(CLOCK, 2).split([Request("a", 0.0, 1000, 2)], prefill=1, gbit_per_s=10)
    computed = CLOCK.step_us([(1000, 0)])
    assert times[0] == pytest.approx(computed)
    assert times[1] == pytest.approx(computed + exposed_us(CLOCK, 1000, 10) + CLOCK.step_us([(1, 1000)]))


def test_a_link_sends_one_prompt_after_the_other():
    """Both are computed in one step, so the second has all of its transfer behind the first's."""
    both = [Request(name, 0.0, 1000, 2) for name in "ab"]
    one, two = Pools(CLOCK, 2).split(both, 1, 10), Pools(CLOCK, 3).split(both, 2, 10)
    assert one[1][1] - one[0][1] > 0.9 * sent_us(CLOCK, 1000, 10)
    assert two[0][1] == two[1][1], "two cards, two links"


def test_a_pool_of_one_card_is_the_engine():
    alone = serve(TRACE, Continuous(), Paged(CLOCK.slots // 16, 16), CLOCK)
    times = Pools(CLOCK, 1).shared(TRACE, Continuous, 8192)
    assert times == [outcome.token_us for outcome in alone.outcomes]


def test_what_just_reaches_a_limit_is_in_time():
    trace = [Request("a", 100.0, 10, 3), Request("b", 100.0, 10, 1)]
    assert in_time(trace, [[200, 210, 220], [201]], ttft_us=100, tpot_us=10) == 0.5
    assert in_time(trace, [[200, 210, 221], [200]], ttft_us=100, tpot_us=10) == 0.5


@pytest.mark.parametrize("limit", [1, 2, 17, 31])
def test_the_highest_rate_is_found_by_bisection(limit):
    drawn = lambda rate: [Request(str(rate), 0.0, 10, 1)]
    run = lambda trace: [[0.0 if int(trace[0].name) <= limit else 2e6]]
    assert highest_rate(run, drawn) == limit


def test_of_the_peak_a_run_reaches_what_its_tokens_cost():
    """One request: 1,000 tokens of prompt and one of its answer, 2 FLOPs for each weight and token, the head once a step."""
    report = serve([Request("a", 0.0, 1000, 2)], Continuous(), Paged(100, 16), CLOCK)
    shape = CLOCK.shape
    flops = 2 * 1001 * shape.layers * shape.layer_matrices + 2 * 2 * shape.vocabulary * shape.width
    assert CLOCK.linear_mfu(report) == pytest.approx(flops / CLOCK.card.flops_per_s["fp16"] / report.makespan_us * 1e6)
