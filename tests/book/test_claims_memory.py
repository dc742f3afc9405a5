"""Tests that settle the claims of the chapter "Where the bytes go", one per claim."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import gpulab.cuda
from gpulab.memory import SHAPES
from gpulab.model import SIZES, TinyVLA
from gpulab.model.config import Config
from gpulab.model.policy import Block, Cache, angles

GB = 10**9
SEVEN = 7 * GB
"""Parameters, as the notes count them."""


def batch(config, size=2):
    image = torch.randint(0, 255, (size, config.image, config.image, 3), dtype=torch.uint8)
    text = torch.randint(0, config.words, (size, config.text_length))
    actions = torch.randint(config.words, config.vocabulary, (size, config.action_length))
    return image, text, actions


def nbytes(tensors):
    return sum(t.nbytes for t in tensors)


def state(model, optimizer):
    """Bytes a parameter: weights, gradients, and what the optimizer keeps (its step counters left out)."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    kept = [t for state in optimizer.state.values() for t in state.values() if t.ndim]
    count = sum(p.numel() for p in model.parameters())
    return [nbytes(what) / count for what in (weights, [p.grad for p in weights if p.grad is not None], kept)]


def trained_once(dtype=torch.float32, autocast=False):
    model = TinyVLA().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = model.loss(*batch(model.config))
    loss.backward()
    optimizer.step()
    return state(model, optimizer)


def saved_bytes(run, but=()):
    """Bytes of the storages that autograd keeps for backward, each once; those of ``but`` are not counted."""
    known = {t.untyped_storage().data_ptr() for t in but}
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.detach()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = run()
    del result
    return sum(t.untyped_storage().nbytes() for at, t in kept.items() if at not in known)


def test_weights_gradients_and_adams_state_are_sixteen_bytes_a_parameter_in_fp32():
    assert trained_once() == [4, 4, 8]
    assert SEVEN * sum(trained_once()) == 112 * GB


def test_sixteen_bit_training_needs_a_copy_of_the_weights_in_fp32_or_keeps_them_so():
    assert trained_once(autocast=True) == [4, 4, 8]
    assert trained_once(torch.bfloat16) == [2, 2, 4]
    weight = torch.ones((), dtype=torch.bfloat16)
    assert weight - 0.001 == weight


def activation_of_a_layer(config, batch_size, tokens):
    """Bytes that one layer in bfloat16 keeps for backward, its weights left out."""
    layer = Block(config, 0).to(torch.bfloat16)
    x = torch.randn(batch_size, tokens, config.width, dtype=torch.bfloat16, requires_grad=True)
    turn = angles(config, 0, tokens, x)
    return saved_bytes(lambda: layer(x, turn, None, None), but=[*layer.parameters(), *turn])


@pytest.mark.parametrize("batch_size, tokens", [(1, 64), (4, 64), (2, 256)])
def test_a_layer_keeps_more_than_fifteen_times_what_the_notes_formula_says(batch_size, tokens):
    config = Config(width=256, heads=8, kv_heads=8, hidden=688)
    formula = batch_size * tokens * config.width * 2
    assert 15 * formula < activation_of_a_layer(config, batch_size, tokens) < 30 * formula


def test_a_parameter_in_fp16_takes_two_bytes():
    assert 10**9 * torch.empty((), dtype=torch.float16).element_size() == 2 * GB
    assert 10**9 * torch.empty((), dtype=torch.float32).element_size() == 4 * GB


def test_weights_alone_are_an_eighth_of_what_training_keeps():
    weights, *others = trained_once()
    assert SEVEN * 2 == 14 * GB and 70e9 * 2 == 140 * GB and 175e9 * 2 == 350 * GB
    assert weights + sum(others) == 8 * 2


def flops_a_token(config, tokens=64):
    """Training's FLOP for one token and one weight of a decoder, counted by PyTorch."""
    with torch.device("meta"):
        layers = nn.ModuleList(Block(config, i) for i in range(config.layers))
        x = torch.empty(1, tokens, config.width, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        y = x
        for layer in layers:
            y = layer(y, angles(config, 0, tokens, x), None, None)
        y.sum().backward()
    return counter.get_total_flops() / tokens / sum(p.numel() for p in layers.parameters())


def days(parameters, tokens, cards, flops_per_s):
    return 6 * parameters * tokens / (cards * flops_per_s) / 86_400


def test_training_costs_six_flop_a_weight_and_token_so_pretraining_takes_a_thousand_days_where_the_table_says_three():
    assert flops_a_token(SIZES["350M"]) == pytest.approx(6, rel=0.05)
    peak = gpulab.cuda.CARDS["A100"].flops_per_s["bf16"]
    assert days(7e9, 2e12, 8, peak) > 300
    assert 184_320 / 24 / 8 == 960


def test_a_175b_model_on_128_cards_takes_ten_weeks_at_forty_percent_of_the_dense_peak():
    peak = gpulab.cuda.CARDS["H100"].flops_per_s["bf16"]
    assert 60 < days(175e9, 300e9, 128, 0.4 * peak) < 80


def test_every_rank_of_ddp_keeps_all_weights_gradients_and_state():
    assert SEVEN * sum(trained_once()) > gpulab.cuda.CARDS["A100"].memory_bytes


def test_a_7b_step_runs_out_of_memory_on_an_80_gb_card_and_not_on_a_141_gb_one():
    def step(card):
        with gpulab.cuda.use(f"ghost:{card}", quiet=True), torch.device("cuda"):
            model = TinyVLA(SIZES["7B"])
            optimizer = torch.optim.AdamW(model.parameters())
            model.loss(*batch(model.config, 1)).backward()
            optimizer.step()
            return torch.cuda.max_memory_allocated()

    with pytest.raises(torch.OutOfMemoryError):
        step("H100")
    assert 100 * GB < step("H200") < gpulab.cuda.CARDS["H200"].memory_bytes


def test_a_llama_2_7b_keeps_half_a_megabyte_of_keys_and_values_a_token_beside_its_weights():
    config, token = SIZES["7B"], 2 * 32 * 32 * 128 * 2
    with torch.device("meta"):
        cache = Cache(config, 1, 4096, like=torch.empty((), dtype=torch.bfloat16))
    assert cache.keys.nbytes + cache.values.nbytes == 4096 * token == 2 * 2**30
    assert token == 512 * 1024


def quantised(weight, block=64):
    """A toy 4-bit format: levels of absmax blocks, two in a byte, and an fp32 scale a block."""
    blocks = weight.reshape(-1, block)
    scale = blocks.abs().amax(1, keepdim=True)
    levels = ((blocks / scale + 1) * 7.5).round().to(torch.uint8)
    return (levels[:, ::2] << 4) | levels[:, 1::2], scale


def dequantised(packed, scale, shape, dtype):
    levels = torch.stack((packed >> 4, packed & 15), -1).flatten(1)
    return ((levels / 7.5 - 1) * scale).reshape(shape).to(dtype)


def test_four_bits_a_weight_are_four_and_a_half_with_the_scales_of_blocks():
    weight = torch.randn(256, 512)
    packed, scale = quantised(weight)
    assert 8 * packed.nbytes / weight.numel() == 4
    assert 8 * (packed.nbytes + scale.nbytes) / weight.numel() == 4.5
    assert (dequantised(packed, scale, weight.shape, weight.dtype) - weight).abs().max() <= weight.abs().max() / 14


def test_autocast_does_not_dequantise_the_layer_does():
    weight, x = torch.randn(64, 64), torch.randn(2, 64)
    packed, scale = quantised(weight)
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(RuntimeError, match="same dtype"):
            nn.functional.linear(x, packed.view(64, 32).repeat(1, 2))
        unpacked = dequantised(packed, scale, weight.shape, torch.bfloat16)
        assert nn.functional.linear(x, unpacked).dtype == torch.bfloat16
    assert unpacked.nbytes == 4 * packed.nbytes


class Adapted(nn.Module):
    """A frozen linear layer and a trained product of two thin ones beside it."""

    def __init__(self, linear, rank=8):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


def with_lora(model, rank=8):
    model = copy.deepcopy(model).requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and not isinstance(module, Adapted):
                setattr(module, name, Adapted(child, rank))
    return model


def test_lora_leaves_gradients_and_optimizer_state_to_the_adapters_alone():
    model = with_lora(TinyVLA())
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    model.loss(*batch(model.config)).backward()
    optimizer.step()
    frozen = [p for p in model.parameters() if not p.requires_grad]
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert all(p.grad is None and p not in optimizer.state for p in frozen)
    assert nbytes(t for s in optimizer.state.values() for t in s.values() if t.ndim) == 8 * trained
    assert trained < 0.2 * sum(p.numel() for p in frozen)


def test_lora_keeps_more_than_four_fifths_of_the_activations():
    full = TinyVLA()
    adapted, given = with_lora(full), batch(full.config, 8)
    kept = [saved_bytes(lambda m=m: m.loss(*given), but=m.parameters()) for m in (full, adapted)]
    assert 0.8 < kept[1] / kept[0] < 1


def adapters(shapes, rank):
    return sum(rank * (a + b) for a, b in shapes)


def decoder_layers():
    """Elements in and out of every linear layer of a Llama 2 7B's layers."""
    with torch.device("meta"):
        layers = TinyVLA(SIZES["7B"]).layers
    return [(m.in_features, m.out_features) for m in layers.modules() if isinstance(m, nn.Linear)]


def tower(width, hidden, blocks, patch=14):
    """Of a vision transformer whose queries, keys and values are one product; its patches are one too."""
    block = [(width, 3 * width), (width, width), (width, hidden), (hidden, width)]
    return block * blocks + [(3 * patch**2, width)]


DINO, SIGLIP = tower(1024, 4096, 24), tower(1152, 4304, 27)
SIGLIP_POOLS = [(1152, 1152), (1152, 2 * 1152), (1152, 1152), (1152, 4304), (4304, 1152)]
OUTPUT = [(4096, 32_064)]


def projector(width):
    """From the towers' joint width to the decoder's."""
    return [(width, 4 * width), (4 * width, 4096), (4096, 4096)]


def test_rank_32_on_a_llama_2_7b_trains_eighty_million_parameters_of_the_hundred_and_ten():
    decoder, rest = decoder_layers(), projector(1024 + 1152) + OUTPUT
    assert adapters(decoder, 32) == 79_953_920
    assert adapters(DINO + SIGLIP + SIGLIP_POOLS, 32) == 28_697_344
    assert adapters(decoder + DINO + SIGLIP + SIGLIP_POOLS + rest, 32) == 110_828_288
    assert adapters(DINO + SIGLIP + SIGLIP_POOLS + rest, 1) == SHAPES["OpenVLA 7B"].elsewhere


def test_four_bytes_a_weight_is_not_what_the_parameters_take_nor_the_larger_part_of_a_step():
    model = TinyVLA().to(torch.bfloat16)
    listed = sum(p.numel() * 4 for p in model.parameters())
    assert listed == 2 * nbytes(model.parameters())
    given = batch(model.config, 64)
    assert saved_bytes(lambda: model.loss(*given), but=model.parameters()) > 10 * nbytes(model.parameters())


def test_weight_only_four_bit_decoding_moves_fewer_bytes_and_a_large_batch_gains_nothing():
    from gpulab.plots.roofline import Point, attainable

    card, n = gpulab.cuda.CARDS["A100"], 4096

    def seconds(rows, bits):
        """Arithmetic stays bf16; the dequantised weights never leave the chip."""
        point = Point("linear", 2 * rows * n * n, int(n * n * bits / 8) + 2 * 2 * rows * n, "bf16")
        return point.flops / attainable(card, point)

    assert seconds(1, 16) / seconds(1, 4.5) > 3.4
    assert seconds(4096, 16) == seconds(4096, 4.5)
