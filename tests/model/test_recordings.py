"""The recorded runs: made again they begin as they are kept, and they are what the questions about them say."""

import math
import statistics

import pytest
import torch

from gpulab.model import load
from gpulab.recordings import FAULTS, recording
from gpulab.recordings.job import SHARD, SHARDS, STEPS, WARM_UP, Rounding, as_in_fp16, place, rate, read, train


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["healthy", "learning rate", "overflow"])
def test_a_run_made_again_begins_as_it_is_kept(name):
    kept = recording(name)
    for step, told in enumerate(train(FAULTS[name], steps=3)):
        assert told["loss"] == pytest.approx(kept["loss"][step], rel=2e-3)
        assert told["norm"] == pytest.approx(kept["norm"][step], rel=2e-2)
        assert told["scale"] == kept["scale"][step] and told["lr"] == kept["lr"][step]


def test_every_fault_is_recorded_whole():
    for name in FAULTS:
        kept = recording(name)
        assert {len(kept[key]) for key in ("loss", "norm", "lr", "scale")} == {STEPS}
        assert [step for step, _ in kept["held_out"]] == list(range(0, STEPS, 10)) and kept["what"]
    with pytest.raises(KeyError, match="no run is called"):
        recording("gremlins")


def test_runs_are_alike_until_their_fault():
    healthy = recording("healthy")
    for name, begins in {"bad batch": 180, "flipped bit": 150, "poisoned shard": 75, "stale sampler": 40}.items():
        assert recording(name)["loss"][:begins] == healthy["loss"][:begins], name
        assert recording(name)["loss"][begins] != healthy["loss"][begins], name


def test_an_epoch_reads_every_batch_once_and_shards_in_another_order_in_the_next():
    whole = SHARDS * SHARD
    first, second = ([place(epoch * whole + i) for i in range(whole)] for epoch in (0, 1))
    assert sorted(first) == sorted(second) == [(shard, batch) for shard in range(SHARDS) for batch in range(SHARD)]
    assert first != second
    assert all(torch.equal(a, b) for a, b in zip(read(1, 2), read(1, 2), strict=True))
    assert not torch.equal(read(1, 2)[0], read(1, 3)[0])


def test_the_rate_warms_up_and_falls_to_a_tenth():
    rates = [rate(step) for step in range(STEPS)]
    assert rates.index(max(rates)) in (WARM_UP - 1, WARM_UP) and rates[-1] == pytest.approx(0.1 * max(rates), rel=0.01)


def test_the_rounding_is_what_fp16_holds_forward_and_backward():
    x = torch.tensor([1.0001, 70_000.0, 1e-9], requires_grad=True)
    out = Rounding()(None, (), x)
    assert out.tolist() == x.detach().half().float().tolist() and out[1].isinf()
    out.backward(torch.tensor([1.0001, 1.0, 1e-9]))
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


def test_the_rounded_policy_loses_what_fp16_autocast_loses():
    policy, given = load(), read(0, 0)
    with torch.autocast("cpu", torch.float16):
        expected = policy.loss(*given).item()
    as_in_fp16(policy)
    exact = load().loss(*given).item()
    assert policy.loss(*given).item() == pytest.approx(expected, rel=5e-3) == pytest.approx(exact, rel=5e-3)


def test_the_bad_batch_is_one_step_of_loss_and_norm():
    run, at = recording("bad batch"), FAULTS["bad batch"].at
    for key in ("loss", "norm"):
        around = run[key][at - 20 : at] + run[key][at + 3 : at + 23]
        assert run[key][at] > 5 * statistics.median(around) and max(around) < run[key][at] / 2
    assert abs(run["held_out"][-1][1] - recording("healthy")["held_out"][-1][1]) < 0.05


def test_the_stale_sampler_has_a_falling_loss_and_a_held_out_loss_that_stands_still():
    run, healthy = recording("stale sampler"), recording("healthy")
    held = dict(run["held_out"])
    assert statistics.mean(run["loss"][-40:]) < 0.8 * statistics.mean(healthy["loss"][-40:])
    assert held[290] > 1.3 * dict(healthy["held_out"])[290] and min(held.values()) == held[130]


def test_the_flipped_bit_is_for_good_and_finite():
    run, fault = recording("flipped bit"), FAULTS["flipped bit"]
    held = dict(run["held_out"])
    assert held[140] < 0.7 and all(held[step] > 1.5 for step in range(150, STEPS, 10))
    assert all(math.isfinite(loss) for loss in run["loss"]) and run["norm"].count(None) == 3
    policy = load()
    fault.strike(fault.at, policy)
    assert policy.patch_embed.bias.abs().max() > 1e36


def test_the_overflow_halves_the_scale_without_end():
    run = recording("overflow")
    assert all(value is None for value in run["loss"][190:]) and None not in run["loss"][:150]
    assert run["scale"][190] / run["scale"][290] == 2.0**100 and run["scale"][-1] < 2.0**-100


def test_the_poisoned_shard_is_high_for_a_shards_length_once_in_each_epoch():
    run, healthy = recording("poisoned shard"), recording("healthy")
    extra = [a - b for a, b in zip(run["loss"], healthy["loss"], strict=True)]
    inside = [i for i in range(STEPS) if place(i)[0] == FAULTS["poisoned shard"].shard]
    assert inside == [*range(75, 100), *range(175, 200)]
    assert statistics.mean(extra[75:100]) > 3 * abs(statistics.mean(extra[105:175])) < statistics.mean(extra[175:200])


def test_the_learning_rate_does_its_harm_while_it_rises():
    run = recording("learning rate")
    held = dict(run["held_out"])
    assert max(run["lr"]) == pytest.approx(20 * max(recording("healthy")["lr"]))
    assert held[10] > held[0] and min(held[step] for step in range(10, STEPS, 10)) > held[0]
