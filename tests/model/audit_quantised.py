"""TinyVLA in fewer bytes, held again: what torchao and peft make of it is what the record says."""

from importlib.metadata import version

import pytest
import torch

from benchmarks import quantised as script
from gpulab.model import TinyVLA, load


def test_what_is_installed_made_the_record(record):
    assert {name: version(name) for name in ("torchao", "peft")}.items() <= record["versions"].items()


@pytest.mark.parametrize("name", script.FORMATS)
def test_the_bytes_of_a_format_are_held_again(points, name):
    matrices = [
        module.weight for module in script.policy_in(name).layers.modules() if isinstance(module, torch.nn.Linear)
    ]
    assert len(matrices) == 28 and script.bytes_of(matrices) == points[name]["matrices_bytes"]


@pytest.mark.parametrize(
    ("name", "values"), [("2 bits in a byte, groups of 32", 4), ("int4, groups of 32", 16), ("float32", 32)]
)
def test_a_group_has_as_many_values_as_its_bits_allow(name, values):
    matrix = script.policy_in(name).layers[0].mlp.gate_proj
    with torch.no_grad():
        seen = matrix(torch.eye(matrix.in_features, dtype=matrix.weight.dtype)).T  # as the product sees the weights
    assert max(len(row[:32].unique()) for row in seen) == values


def test_bytes_are_counted_with_their_scales():
    """4 bits, and a scale and a zero point of 16 bits each for 32 weights."""
    assert script.weights("int4, groups of 32", episodes=2)["bits_held"] == 4 + 2 * 16 / 32


def test_the_script_holds_the_same_for_adapters(points):
    again = script.adapted("LoRA of rank 8", steps=1, episodes=2)
    same = ("trainable", "parameter_bytes", "gradient_bytes", "optimizer_bytes", "rate")
    assert {name: again[name] for name in same} == {name: points["LoRA of rank 8"][name] for name in same}


def test_adapters_leave_the_weights_alone():
    torch.manual_seed(0)
    policy = load()
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    script.adapt(policy, script.with_adapters(policy, 2), script.RATES["lora"], steps=2)
    after = policy.state_dict()
    kept = [
        torch.equal(before[name], after.get(name, after.get(name.replace(".weight", ".base_layer.weight"))))
        for name in before
    ]
    moved = [name for name in after if "lora_B" in name and after[name].any()]
    assert all(kept) and len(kept) == len(before) and len(moved) == 28


def test_a_policy_is_still_a_policy_when_quantised():
    assert isinstance(script.policy_in("int8, a scale a row"), TinyVLA)
