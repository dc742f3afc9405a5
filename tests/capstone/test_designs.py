"""What a plan takes, held to what others published and to the course's own counts."""

import pytest

from autograder.core.sampler import Sampler
from exercises.capstone.design_review import cases as designs_drawn
from exercises.capstone.design_review import designs
from gpulab.cards.cards import CARDS
from gpulab.memory import SHAPES, Job, plan
from gpulab.memory.activations import layer
from gpulab.published import measurement

PUBLISHED_HOURS = {"Llama 2 7B": 184_320, "Llama 2 70B": 1_720_320}
"""Touvron and others, Llama 2, table 2: hours of A100 80GB for 2 T tokens."""


def spec(shape="Llama 2 7B", **given):
    asked = {
        "mode": "train",
        "shape": shape,
        "card": "A100",
        "node_gpus": 8,
        "nodes": 16,
        "reserve_bytes": 0,
        "batch": 1024,
        "sequence": 4096,
    }
    asked |= {
        "layer_bytes": layer(Job(SHAPES[shape], precision="bf16 with master weights")),
        "tokens": 2 * 10**12,
        "mfu": 0.4,
    }
    asked |= {"port_bytes_per_s": 24e9, "save_s": 60.0, "gpu_mtbf_s": 1.8e8, "dollars_per_gpu_hour": 1.0}
    return asked | given


@pytest.mark.parametrize("shape", PUBLISHED_HOURS)
def test_the_published_hours_are_those_of_a_utilisation_of_about_forty_per_cent(shape):
    """So the formula, with what drawn specifications say, gives hours as they were published."""
    one = designs.Layout(8, 1, 8, 1, 1)
    at_peak = designs.days(spec(shape, mfu=1.0, save_s=1e-9, gpu_mtbf_s=1e18), one, 1.0) * 24 * one.gpus
    assert 0.35 < at_peak / PUBLISHED_HOURS[shape] < 0.45


def test_published_runs_of_a_larger_model_reach_what_specifications_are_drawn_with():
    for name in ("llama3-405b-8192-cp1", "llama3-405b-16384-cp1", "llama3-405b-16384-cp16"):
        reached = measurement(name).value * 1e12 / CARDS["H100"].flops_per_s["bf16"]
        assert 0.30 < reached < 0.50


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("data", [1, 8])
def test_states_and_activations_are_the_planners_where_nothing_else_is_divided(stage, data):
    asked = spec(batch=data)
    held = designs.held_bytes(asked, designs.Layout(1, 1, data, stage, 1))
    job = Job(
        SHAPES["Llama 2 7B"],
        precision="bf16 with master weights",
        sequence=4096,
        stage=stage,
        world=data,
        accumulate=True,
    )
    planned = plan(job, "A100", context=0).moments["as the backward pass begins"]
    expected = sum(planned[name] for name in ("parameters", "master weights", "optimizer", "gradients", "activations"))
    assert held == pytest.approx(expected, rel=0.01)


def test_a_pipeline_divides_the_states_and_not_what_is_in_flight():
    one, four = (designs.held_bytes(spec(), designs.Layout(8, stages, 1, 0, 1)) for stages in (1, 4))
    states = 16 * SHAPES["Llama 2 7B"].parameters / 8
    assert one - four == pytest.approx(states * 3 / 4)


def test_the_best_interval_wastes_the_least():
    asked, layout = spec(), designs.Layout(1, 1, 128, 1, 1)
    best = designs.best_interval_s(asked, layout)
    assert all(
        designs.wasted(asked, layout, best) < designs.wasted(asked, layout, best * times)
        for times in (0.5, 0.9, 1.1, 2)
    )


@pytest.mark.parametrize("seed", range(6))
def test_drawn_specifications_are_met_or_are_not_each_for_its_reason(seed):
    draw = Sampler(seed)
    assert all(
        designs.reviewed(each)[1] is None for each in [*designs_drawn.trainings(draw), *designs_drawn.servings(draw)]
    )
    binds = [designs.reviewed(each)[1] for each in designs_drawn.untrainable(draw)]
    assert binds == ["memory", "network", "time", "cost"]
    assert [designs.reviewed(each)[1] for each in designs_drawn.unservable(draw)] == [
        "memory",
        "latency",
        "gpus",
        "cost",
    ]
