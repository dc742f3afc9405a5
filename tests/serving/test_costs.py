"""serving.costs: FLOPs and bytes are those of PyTorch's own operations, and the least time is below what was measured."""

import itertools
import random

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import gpulab.cuda
from gpulab.cards.cards import CARDS
from gpulab.memory import SHAPES, Job, Shape, plan
from gpulab.memory.shapes import LLAMAS
from gpulab.observe import observe
from gpulab.plots import roofline
from gpulab.serving.costs import (
    Chunk,
    Cost,
    attention,
    cached_bytes,
    crossing_batch,
    decode,
    least_seconds,
    linear_layers,
    parts,
    prefill,
    ridge,
)

SMALL = Shape(width=64, layers=3, heads=8, kv_heads=2, hidden=96, vocabulary=50, sequence=64, head_dim=16)


def counted(seen):
    return sum(kernel.flops for kernel in seen.kernels), sum(
        kernel.bytes_read + kernel.bytes_written for kernel in seen.kernels
    )


@pytest.mark.parametrize("name", LLAMAS)
@pytest.mark.parametrize("chunks", [prefill(2, 128), decode(5, 900), [Chunk(0, 3), Chunk(70, 20), Chunk(9, 1)]])
def test_linear_layers_are_what_the_virtual_card_counts_of_them(name, chunks):
    shape, tokens = SHAPES[name], sum(chunk.new for chunk in chunks)
    products = list(shape.products.values()) * 2 + [(shape.width, shape.vocabulary)]
    rows = [tokens] * (len(products) - 1) + [len(chunks)]
    with gpulab.cuda.use("ghost:H100", quiet=True), observe() as seen:
        for (into, out), count in zip(products, rows, strict=True):
            x = torch.empty(count, into, dtype=torch.float16, device="cuda")
            torch.nn.functional.linear(x, torch.empty(out, into, dtype=x.dtype, device="cuda"))
    two = Shape(**{**vars(shape), "layers": 2})
    assert (linear_layers(two, chunks).flops, linear_layers(two, chunks).bytes) == counted(seen)


def test_attention_of_one_new_token_is_what_its_two_products_compute():
    for cached, batch in itertools.product((0, 1, 40), (1, 3)):
        q = torch.randn(batch, SMALL.heads, 1, SMALL.head_dim)
        k = torch.randn(batch, SMALL.heads, cached + 1, SMALL.head_dim)
        with FlopCounterMode(display=False) as counter:
            (q @ k.transpose(-1, -2)).softmax(-1) @ k
        assert attention(SMALL, decode(batch, cached)).flops == SMALL.layers * counter.get_total_flops()


def test_attention_moves_each_tensor_once():
    for cached, new, batch in itertools.product((0, 5), (1, 6), (1, 3)):
        q, out = (torch.empty(batch, SMALL.heads, new, SMALL.head_dim, dtype=torch.float16) for _ in range(2))
        k, v = (torch.empty(batch, SMALL.kv_heads, cached + new, SMALL.head_dim, dtype=torch.float16) for _ in range(2))
        moved = SMALL.layers * sum(one.nbytes for one in (q, k, v, out))
        assert attention(SMALL, [Chunk(cached, new)] * batch).bytes == moved


def test_a_pass_in_pieces_computes_the_same_attention_and_reads_the_weights_again():
    whole, pieces = prefill(1, 96), [Chunk(0, 32), Chunk(32, 32), Chunk(64, 32)]
    assert sum(attention(SMALL, [piece]).flops for piece in pieces) == attention(SMALL, whole).flops
    assert sum(linear_layers(SMALL, [piece]).bytes for piece in pieces) > linear_layers(SMALL, whole).bytes
    assert parts(SMALL, whole) == {"linear layers": linear_layers(SMALL, whole), "attention": attention(SMALL, whole)}


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("name", LLAMAS)
def test_the_crossing_batch_is_the_first_beyond_the_ridge(name, card):
    shape, card = SHAPES[name], CARDS[card]
    found = crossing_batch(shape, card, "fp16")
    at = [linear_layers(shape, decode(batch, 77)).intensity >= ridge(card, "fp16") for batch in range(1, found + 1)]
    assert at == [False] * (found - 1) + [True] and found > ridge(card, "fp16")


def test_a_model_as_narrow_as_its_batch_never_crosses():
    assert crossing_batch(SMALL, CARDS["H100"], "fp16") is None
    assert linear_layers(SMALL, decode(10**5, 1)).bound(CARDS["H100"], "fp16") == "memory"


def test_decodes_attention_has_the_sharing_of_its_heads_as_intensity_at_any_batch():
    for name in LLAMAS:
        shape = SHAPES[name]
        found = [attention(shape, decode(batch, 32_768)).intensity for batch in (1, 64, 1024)]
        assert found == pytest.approx([shape.heads / shape.kv_heads] * 3, rel=1e-3)


def test_work_is_placed_where_the_figure_places_it():
    rng = random.Random(18)
    for _ in range(200):
        work, card = Cost(rng.randint(1, 10**15), rng.randint(1, 10**12)), rng.choice(list(CARDS.values()))
        point = roofline.Point("one", work.flops, work.bytes, "fp16")
        assert work.bound(card, "fp16") == roofline.bound(card, point) and ridge(card, "fp16") == roofline.ridge(
            card, "fp16"
        )
        assert work.least_seconds(card, "fp16") == pytest.approx(
            work.flops / roofline.attainable(card, point), rel=1e-12
        )


def test_the_cache_is_the_planners():
    for name in LLAMAS:
        job = Job(SHAPES[name], "serve", batch=3, sequence=700)
        assert plan(job, "H100").terms["cache"] == cached_bytes(SHAPES[name], 2100)


def test_the_least_time_is_below_what_others_measured():
    """gpt-fast (32971d31), README: Llama 2 7B in 16 bits on an A100 80GB, batch 1, prompt of 5 tokens, 104.9 tokens/s."""
    least = least_seconds(SHAPES["Llama 2 7B"], decode(1, 5), CARDS["A100"], "bf16")
    assert 0.5 < least * 104.9 < 1
