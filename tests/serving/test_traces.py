"""Requests that are drawn and requests that were recorded."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpulab.serving import azure, bursty, long_among_short, mooncake, poisson, robots, shared_prefixes
from gpulab.serving.requests import PREFIX_BLOCK
from gpulab.serving.traces import recorded


def spread(trace):
    gaps = np.diff([request.arrival_us for request in trace])
    return gaps.std() / gaps.mean()


def test_the_same_seed_gives_the_same_requests_and_another_others():
    sampler = lambda seed: poisson(20, per_s=5, prompt=(1, 9), writes=(1, 9), most=9, seed=seed, vocabulary=33)
    assert sampler(1) == sampler(1) != sampler(2)
    assert all(0 <= id < 33 for request in sampler(1) for id in request.prompt)


def test_rates_and_bursts():
    drawn = dict(prompt=5, writes=5, most=5, seed=1)
    for trace, much in [
        (poisson(4000, 20, **drawn), 1.0),
        *((bursty(4000, 20, much, **drawn), much) for much in (4.0, 0.2)),
    ]:
        assert trace[-1].arrival_us == pytest.approx(200e6, rel=0.2) and spread(trace) == pytest.approx(much, rel=0.15)


def test_lengths_are_within_what_was_asked_and_writes_within_most():
    trace = poisson(500, 5, prompt=(3, 7), writes=(1, 20), most=12, seed=2, deadline_us=5.0, priority=2)
    assert {request.prompt for request in trace} == set(range(3, 8)) and max(request.writes for request in trace) == 12
    assert all(request.deadline_us == 5.0 and request.priority == 2 for request in trace)


def test_every_so_manyth_prompt_is_long():
    trace = long_among_short(12, 5, prompt=10, long=(1000, 1100), every=4, writes=5, most=5, seed=1)
    lengths = [request.prompt for request in trace]
    assert [number for number, length in enumerate(lengths) if length >= 1000] == [3, 7, 11]


@pytest.mark.parametrize("vocabulary", [0, 33])
def test_groups_begin_alike(vocabulary):
    trace = shared_prefixes(40, 5, groups=3, blocks=2, prompt=(1, 9), writes=2, most=2, seed=1, vocabulary=vocabulary)
    assert {request.prefix for request in trace} == {(0, 1), (2, 3), (4, 5)}
    assert all(2 * PREFIX_BLOCK < request.prompt_tokens <= 2 * PREFIX_BLOCK + 9 for request in trace)
    if vocabulary:
        assert len({request.prompt[: 2 * PREFIX_BLOCK] for request in trace}) == 3


def test_robots_ask_at_their_rate_and_need_the_answer_before_they_ask_again():
    trace = robots(3, hz=10, seconds=2, prompt=20, action_tokens=7, seed=1)
    assert len(trace) == 60 and all(
        request.deadline_us == 1e5 and request.writes == request.most == 7 for request in trace
    )
    mine = [request.arrival_us for request in trace if request.name.endswith("robot 1")]
    assert np.diff(mine) == pytest.approx(1e5) and trace == sorted(trace, key=lambda request: request.arrival_us)
    assert len({request.name for request in trace}) == 60


def test_recorded_traces_are_the_excerpts_that_the_readme_names():
    """Means of these rows, computed from the published files."""
    for kind, prompt, writes in (("conversation", 1014.189, 247.262), ("code", 2122.354, 27.621)):
        trace = azure(kind)
        assert len(trace) == 1000 and trace[0].arrival_us == 0
        assert np.mean([request.prompt for request in trace]) == pytest.approx(prompt)
        assert np.mean([request.writes for request in trace]) == pytest.approx(writes)
    assert spread(azure("code")) > 3 > 1.5 > spread(azure("conversation"))
    with pytest.raises(ValueError, match="'conversation' and 'code'"):
        azure("poems")


def test_mooncakes_ids_name_blocks_of_512_tokens():
    trace = mooncake()
    assert len(trace) == 900 and trace[0].prefix == tuple(range(14))
    assert all(len(request.prefix) == -(-request.prompt // PREFIX_BLOCK) for request in trace)
    assert Counter(request.prefix[0] for request in trace).most_common(1)[0][1] > 100


def test_no_file_of_a_trace_is_large_and_its_licence_lies_beside_it():
    folder = Path(recorded.__file__).parent
    assert all(path.stat().st_size < 30_000 for path in folder.glob("*.csv"))
    assert "Apache License" in (folder / "LICENSE-mooncake-Apache-2.0.txt").read_text()
    assert "CC BY 4.0" in (folder / "README.md").read_text()
