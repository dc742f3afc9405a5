"""Ghost cards: shapes, memory and time of what this machine could not hold."""

import resource

import pytest
import torch

import gpulab.cuda
from gpulab import observe

GIB = 1 << 30
LIMIT = resource.getrlimit(resource.RLIMIT_AS)


@pytest.fixture
def ghost():
    with gpulab.cuda.use("ghost:H100", quiet=True) as runtime:
        yield runtime


def test_a_large_tensor_takes_the_cards_memory_and_none_of_this_machines(ghost):
    x = torch.ones(20 * GIB, dtype=torch.uint8, device="cuda")
    y = x + 1
    assert torch.cuda.memory_allocated() == 40 * GIB and y.is_cuda


def test_it_runs_out_as_the_card_does(ghost):
    x = torch.empty(60 * GIB, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 60.00 GiB"):
        x + 1


@pytest.mark.parametrize(
    "read",
    [lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: x.tolist(), lambda x: x.nonzero(), lambda x: x[x > 0]],
)
def test_a_value_is_refused(ghost, read):
    with pytest.raises(gpulab.cuda.GhostHasNoValues, match="has a shape and no values"):
        read(torch.ones(3, device="cuda"))


def test_autocast_is_refused_not_ignored(ghost):
    with pytest.raises(gpulab.cuda.NotModelled, match="autocast on a ghost card"):
        with torch.autocast("cuda"):
            pass


def step(width):
    torch.manual_seed(0)
    with torch.device("cuda"):
        layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
        optimizer = torch.optim.AdamW(layer.parameters())
        x = torch.randn(2, 16, width)
    with observe() as seen:
        layer(x).square().mean().backward()
        optimizer.step()
    return seen


def test_a_ghost_step_takes_the_time_and_memory_of_a_virtual_one(ghost):
    shadow = step(64)
    peak = torch.cuda.max_memory_allocated()
    with gpulab.cuda.use("virtual:H100", quiet=True):
        real = step(64)
        assert peak == pytest.approx(torch.cuda.max_memory_allocated(), rel=0.1)
    assert shadow.kernels[-1].end_us == pytest.approx(real.kernels[-1].end_us, rel=0.1)


def large_step(layers, dtype, **options):
    """One AdamW step of layers of width 4096, 0.2 billion parameters each."""
    with torch.device("cuda"):
        layer = torch.nn.TransformerEncoderLayer
        model = torch.nn.Sequential(
            *(layer(4096, 32, 4 * 4096, dropout=0.0, batch_first=True, dtype=dtype) for _ in range(layers))
        )
        x = torch.randn(1, 128, 4096, dtype=dtype)
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    model(x).square().mean().backward()
    optimizer.step()
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("foreach, bytes_each", [(False, 8), (True, 10)])
def test_a_step_in_bfloat16_takes_weight_gradient_and_two_states(ghost, foreach, bytes_each):
    # The foreach form holds one more copy of the parameters while it steps.
    parameters = large_step(8, torch.bfloat16, foreach=foreach)
    assert parameters > 1.6e9
    assert torch.cuda.max_memory_allocated() / parameters == pytest.approx(bytes_each, rel=0.03)


def test_six_billion_parameters_in_float32_fit_no_card(ghost):
    with pytest.raises(torch.OutOfMemoryError, match="GPU 0 has a total capacity of 79.18 GiB"):
        large_step(32, torch.float32)


def test_a_machine_too_small_for_the_card_says_so_and_names_the_ghost():
    huge = 70 * GIB
    with gpulab.cuda.use("virtual:H100", quiet=True):
        resource.setrlimit(resource.RLIMIT_AS, (32 * GIB, LIMIT[1]))
        try:
            with pytest.raises(gpulab.cuda.MachineTooSmall, match="use a ghost card"):
                torch.empty(huge, dtype=torch.uint8, device="cuda")
        finally:
            resource.setrlimit(resource.RLIMIT_AS, LIMIT)


ATTENTION = {
    "half, Hopper": ("H100", torch.bfloat16, {}, "cudnn"),
    "half, masked, Hopper": ("H200", torch.bfloat16, {"attn_mask": True}, "cudnn"),
    "half": ("A100", torch.bfloat16, {}, "flash"),
    "half, causal": ("A100", torch.float16, {"is_causal": True}, "flash"),
    "float32": ("H100", torch.float32, {}, "efficient"),
    "masked": ("A100", torch.bfloat16, {"attn_mask": True}, "efficient"),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_takes_the_kernel_that_writes_no_scores(name):
    card, dtype, options, kind = ATTENTION[name]
    with gpulab.cuda.use(f"ghost:{card}", quiet=True):
        q = torch.zeros(2, 4, 1024, 64, device="cuda", dtype=dtype, requires_grad=True)
        if "attn_mask" in options:
            options = {"attn_mask": torch.ones(1024, 1024, dtype=torch.bool, device="cuda")}
        with gpulab.observe() as seen:
            torch.nn.functional.scaled_dot_product_attention(q, q, q, **options).sum().backward()
    kernels = [k.name for k in seen.kernels if "attention" in k.name]
    call = f"aten._scaled_dot_product_{kind}_attention"
    assert kernels == [call, f"{call}_backward"]
    scores = 2 * 4 * 1024 * 1024 * q.element_size()
    assert seen.peak_bytes < scores


@pytest.mark.parametrize("mask", [False, True])
def test_on_hopper_cudnn_takes_shared_heads_and_a_mask(mask):
    """What an H100 kept and allocated: 4 MiB of output, 4 bytes a row of a head, a mask as numbers."""
    with gpulab.cuda.use("ghost:H100", quiet=True):
        q, k, v = (
            torch.zeros(4, 512, heads, 64, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
            for heads in (16, 8, 8)
        )
        given = torch.ones(512, 512, device="cuda", dtype=torch.bool) if mask else None
        before = torch.cuda.memory_allocated()
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given, enable_gqa=True)
        measured = 4_850_688 if mask else 4_326_400
        assert torch.cuda.memory_allocated() - before == pytest.approx(measured, abs=2048)
        del out
