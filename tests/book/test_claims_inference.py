"""Tests that settle the claims of the chapter "Anatomy of LLM inference", one per claim."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from gpulab.cards.cards import CARDS
from gpulab.memory.shapes import SHAPES
from gpulab.model import SIZES, Cache, Config, TinyVLA
from gpulab.model.policy import angles, rotate

GROUPED = Config(width=64, layers=2, heads=8, kv_heads=2, hidden=192)


def causal(tokens):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


def policy(config=GROUPED):
    torch.manual_seed(0)
    return TinyVLA(config).eval().requires_grad_(False)


def one_by_one(model, x):
    """Hidden states of x (B, T, width), one pass for each token, and how many passes that were."""
    cache = Cache(model.config, len(x), x.shape[1], like=x)
    told = [model.decode(token, None, cache) for token in x.split(1, 1)]
    return torch.cat(told, 1), len(told)


def flops(run):
    """Of matrix products; attention is written as such."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def matrices(model):
    return sum(p.numel() for p in model.layers.parameters() if p.ndim == 2)


def test_a_known_text_is_one_pass_and_a_new_one_a_pass_for_each_token():
    model, calls = policy(), []
    for layer in model.layers:
        layer.mlp.register_forward_hook(lambda module, given, out: calls.append(given[0].shape[1]))
    x = torch.randn(1, 24, 64)
    whole = model.decode(x, causal(24))
    assert calls == [24, 24]
    calls.clear()
    stepped, passes = one_by_one(model, x)
    assert calls == [1, 1] * 24 and passes == 24
    assert torch.allclose(whole, stepped, atol=1e-5)


def test_attention_has_no_order_and_turned_queries_and_keys_see_the_distance_alone():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 9, 8, dtype=torch.float64)
    mixed = torch.randperm(9)
    attended = F.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(F.scaled_dot_product_attention(q, k[:, :, mixed], v[:, :, mixed]), attended)

    def score(m, n):
        at = [angles(GROUPED, place, 1, like=q) for place in (m, n)]
        return (rotate(q[0, 0, :1], *at[0]) * rotate(k[0, 0, :1], *at[1])).sum().item()

    # Angles are computed in float32, which the model does as well.
    assert score(7, 3) == pytest.approx(score(1007, 1003), abs=1e-3)
    assert abs(score(7, 3) - score(7, 4)) > 0.01 and abs(score(7, 3) - score(3, 7)) > 0.01


def bytes_of_products(model, batch):
    """Of the matrices of all layers in 16 bits: weights once, activations in and out."""
    shapes = [p.shape for p in model.layers.parameters() if p.ndim == 2]
    return sum(2 * (n * k + batch * (n + k)) for n, k in shapes)


def test_the_batch_is_the_intensity_of_decodes_linear_layers_and_not_of_its_attention():
    with torch.device("meta"):
        model = TinyVLA(Config(width=4096, layers=1, heads=32, kv_heads=8, hidden=14_336))
    linear, attention = {}, {}
    for batch in (1, 16, 256, 1024):
        x = torch.empty(batch, 1, 4096, device="meta")
        with torch.no_grad():
            counted = {}
            for held in (0, 2047):
                cache = Cache(model.config, batch, held + 1, like=x)
                cache.length = held
                counted[held] = flops(lambda x=x, cache=cache: model.decode(x, None, cache))
        a_token = (counted[2047] - counted[0]) / 2047
        weights = counted[0] - a_token
        assert weights == 2 * batch * matrices(model)
        linear[batch] = weights / bytes_of_products(model, batch)
        attention[batch] = a_token / (batch * 2 * 2 * 8 * 128)  # bytes of a token's keys and values, 16 bits
    assert linear[1] == pytest.approx(1, rel=0.01) and linear[16] == pytest.approx(16, rel=0.01)
    assert linear[256] > 200 and linear[1024] > 500
    assert set(attention.values()) == {32 / 8}
    for card, least, most in (("A100", 155, 175), ("H100", 310, 350)):
        ridge = CARDS[card].flops_per_s["bf16"] / CARDS[card].bytes_per_s
        intensity = [2 * b * matrices(model) / bytes_of_products(model, b) for b in range(1, 1000)]
        assert least < 1 + sum(one < ridge for one in intensity) < most


def test_one_image_is_a_hundredth_of_the_weights_in_cache_and_most_of_the_tokens():
    robot = SIZES["7B"]
    like = torch.empty((), dtype=torch.bfloat16, device="meta")
    cache = Cache(robot, 1, robot.patches, like)
    held = cache.keys.nbytes + cache.values.nbytes
    assert robot.patches == 256 and held == 128 * 2**20
    assert 0.009 < held / (2 * robot.parameters) < 0.011
    assert robot.prefix + robot.action_length == 295 and robot.patches / 295 > 0.85


def test_bytes_a_token_are_a_choice_of_the_architecture_and_not_of_the_size():
    """In 16 bits; an audit reads the sizes of Llama, Falcon and DeepSeek from Hugging Face's configurations, too."""
    many, falcon, latent = 2 * SHAPES["Llama 2 7B"].cached, 2 * 2 * 32 * 1 * 64, 2 * 61 * (512 + 64)
    assert (many, falcon, latent) == (512 * 1024, 8 * 1024, 70_272) and latent < many / 7
    assert 2 * SHAPES["Llama 2 70B"].cached == 2 * SHAPES["Llama 3.1 70B"].cached == 320 * 1024 < many


def test_a_later_token_changes_no_earlier_output_where_the_mask_is_causal():
    model, x = policy(), torch.randn(1, 12, 64)
    other = x.clone()
    other[:, 8:] = torch.randn(1, 4, 64)
    before, after = model.decode(x, causal(12)), model.decode(other, causal(12))
    assert torch.equal(before[:, :8], after[:, :8]) and not torch.allclose(before[:, 8:], after[:, 8:])
    every = torch.ones(12, 12, dtype=torch.bool)
    assert not torch.allclose(model.decode(x, every)[:, :8], model.decode(other, every)[:, :8])


def test_the_feed_forward_network_sees_one_token_and_is_two_thirds_of_the_work():
    mlp, x = policy().layers[0].mlp, torch.randn(1, 6, 64)
    assert torch.allclose(mlp(x), torch.cat([mlp(token) for token in x.split(1, 1)], 1), atol=1e-6)
    assert not torch.allclose(mlp(2 * x), 2 * mlp(x), atol=1e-3)
    with torch.device("meta"):
        layer = TinyVLA(Config(width=4096, layers=1, heads=32, kv_heads=32, hidden=11_008)).layers[0]
        token = torch.empty(1, 1, 4096)
        with torch.no_grad():
            whole = flops(lambda: layer(token, angles(SIZES["7B"], 0, 1, like=token), None, None))
            share = flops(lambda: layer.mlp(token)) / whole
    assert 0.65 < share < 0.68
