"""memory.plan: its terms, its words and what it refuses."""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpulab.cards.cards import CARDS
from gpulab.memory import SHAPES, Job, activations, plan
from gpulab.memory.shapes import shape_of
from gpulab.model import SIZES, Config
from gpulab.model.policy import Block, angles

LLAMA = SHAPES["Llama 2 7B"]


@pytest.mark.parametrize("size", SIZES)
def test_a_policys_shape_counts_its_parameters(size):
    assert shape_of(SIZES[size]).parameters == SIZES[size].parameters


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("GPT-2", 124_439_808),
        ("GPT-2 XL", 1_557_611_200),
        ("BERT-large", 335_143_938),
        ("Llama 2 7B", 6_738_415_616),
        ("Llama 2 13B", 13_015_864_320),
        ("Llama 2 70B", 68_976_648_192),
        ("Llama 3.1 8B", 8_030_261_248),
        ("Llama 3.1 70B", 70_553_706_496),
        ("Llama 3.2 3B", 3_212_749_824),
        ("OpenVLA 7B", 7_541_237_184),
    ],
)
def test_a_published_shape_counts_the_parameters_of_its_checkpoint(name, parameters):
    assert SHAPES[name].parameters == parameters


def test_the_terms_add_up_to_the_peak_and_are_the_fullest_moments():
    planned = plan(Job(LLAMA, batch=4, sequence=2048), "H100")
    assert planned.peak == sum(planned.terms.values()) == max(sum(m.values()) for m in planned.moments.values())
    assert planned.allocated == planned.peak - planned.terms["context"]
    assert planned.capacity == CARDS["H100"].memory_bytes and planned.card is CARDS["H100"]


def test_training_7b_with_adam_takes_sixteen_bytes_a_parameter_and_more():
    terms = plan(Job(LLAMA, precision="fp32"), "H100").terms
    assert terms["parameters"] == terms["gradients"] == 4 * LLAMA.parameters == terms["optimizer"] // 2


def test_eight_bits_have_a_scale_for_each_row_and_four_bits_for_each_64_weights():
    scales = {bits: plan(Job(LLAMA, "serve", weight_bits=bits), "H100").terms["scales"] for bits in (8, 4)}
    rows = 32 * (5 * 4096 + 2 * 11_008)
    assert scales == {8: 4 * rows, 4: 4 * 32 * (4 * 4096**2 + 3 * 4096 * 11_008) // 64}


def test_adapters_outside_of_the_layers_count_where_all_are_adapted():
    shape = SHAPES["OpenVLA 7B"]
    assert Job(shape, lora=32, lora_on=tuple(shape.products)).adapters == 110_828_288
    assert Job(shape, lora=32).adapters == Job(LLAMA, lora=32).adapters


@pytest.mark.parametrize(
    "config", [Config(width=512, heads=8, kv_heads=8, hidden=1376), Config(width=512, heads=8, kv_heads=2, hidden=1792)]
)
def test_a_layer_keeps_what_the_closed_form_says(config):
    """In bytes a token: norms 16 h + 8, attention 4 q + 4 k + 4 a, MLP 8 f, as ``memory_formulas`` has it."""
    shape, tokens, kept = shape_of(config), 32, {}
    formula = 16 * shape.width + 4 * shape.queries + 4 * shape.keys + 8 * shape.hidden + 4 * shape.heads + 8
    layer = Block(config, 0).to(torch.bfloat16)
    x = torch.randn(1, tokens, config.width, dtype=torch.bfloat16, requires_grad=True)
    turn = angles(config, 0, tokens, x)

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.detach()
        return tensor.detach()

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = layer(x, turn, None, None)
    for weight in (*layer.parameters(), *turn):
        kept.pop(weight.untyped_storage().data_ptr(), None)
    assert sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) == tokens * formula, out.shape
    assert activations.layer(Job(config)) == formula


def test_it_fits_up_to_the_cards_last_byte():
    job = Job(SIZES["350M"])
    needed = plan(job, "T4", context=0).peak
    spare = CARDS["T4"].memory_bytes - needed
    assert plan(job, "T4", context=0, reserve=spare).fits and not plan(job, "T4", context=0, reserve=spare + 1).fits


@pytest.mark.parametrize(
    ("job", "binding"),
    [
        (Job(LLAMA, sequence=128, foreach=False), "optimizer"),
        (Job(LLAMA, batch=64, sequence=4096, lora=8), "activations"),
        (Job(LLAMA, "serve", batch=64, sequence=4096), "cache"),
        (Job(LLAMA, "serve", sequence=128), "parameters"),
        (Job(LLAMA, "serve", sequence=1024, batch=4, weight_bits=4), "cache"),
        (Job(SHAPES["Llama 3.1 8B"], batch=8, checkpointing=True, stage=3, world=64), "logits"),
    ],
)
def test_the_binding_term_is_named(job, binding):
    assert plan(job, "H100").binding == binding


@pytest.mark.parametrize(
    ("lever", "term", "share"),
    [
        (dict(stage=1, world=8), "optimizer", 8),
        (dict(stage=2, world=8), "gradients", 8),
        (dict(stage=3, world=8), "parameters", 8),
        (dict(optimizer="adamw 8-bit"), "optimizer", 3.9),
        (dict(weight_bits=4, lora=8), "parameters", 3.5),
        (dict(checkpointing=True), "activations", 8),
    ],
)
def test_each_lever_shrinks_its_term(lever, term, share):
    job = Job(SHAPES["Llama 2 7B"], batch=8, sequence=512, precision="fp32")
    if "lora" in lever:
        job = replace(job, lora=8)
    when = "as the backward pass begins" if term == "activations" else "in the optimizer's step"
    before, after = (plan(j, "H100").moments[when][term] for j in (job, replace(job, **lever)))
    assert before / after >= 0.99 * share


@pytest.mark.parametrize(
    "more", [dict(batch=5), dict(sequence=4096), dict(accumulate=True), dict(precision="mixed bf16")]
)
def test_more_work_never_takes_less(more):
    job = Job(LLAMA, batch=4, sequence=2048, foreach=False)
    assert plan(replace(job, **more), "H100").peak > plan(job, "H100").peak


def test_gib_and_gb_stand_apart_in_the_table():
    planned = plan(Job(LLAMA, batch=8, sequence=2048), "A100")
    lines = planned.table().splitlines()
    assert max(map(len, lines)) <= 80 and "GiB" in lines[0] and "GB" in lines[0].split("GiB")[1]
    total = next(line for line in lines if "in all" in line).split()
    assert total[-2:] == [f"{planned.peak / 2**30:.2f}", f"{planned.peak / 1e9:.2f}"]
    assert "does not fit" in lines[-1] and sum("<- binding" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (dict(precision="fp8"), "precision is 'fp8'"),
        (dict(optimizer="lion"), "optimizer is 'lion'"),
        (dict(stage=4), "stage is 4"),
        (dict(weight_bits=4), "asks for lora"),
        (dict(batch=0), "at least 1"),
        (dict(lora=0), "lora is 0"),
        (dict(lora=8, lora_on=("qkv",)), "called qkv"),
        (dict(checkpointing="half"), "checkpointing is 'half'"),
    ],
)
def test_what_does_not_go_together_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Job(LLAMA, **wrong)
    with pytest.raises(ValueError, match="no card"):
        plan(Job(LLAMA), "B9000")
