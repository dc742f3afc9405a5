"""What settles the claims of the chapter "Number formats and mixed precision": one test a claim.

The notes' own loops stand here word for word, comments aside, with the names that they leave undefined given to them.
"""

import os
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from functools import cache
from io import StringIO

import numpy as np
import pytest
import torch
from torch import nn

import gpulab
import gpulab.cuda
from gpulab import evidence, memory
from gpulab.cuda import CARDS
from gpulab.formats import FORMATS
from gpulab.model import load
from gpulab.model.world import WORDS, frames
from tests.forks import in_a_fork

F = nn.functional


def test_fp16_overflows_where_bf16_rounds():
    big = torch.tensor(70_000.0)
    assert big.half().isinf() and big.bfloat16() == 70_144
    assert torch.tensor(65_519.0).half() == 65_504 and torch.tensor(65_520.0).half().isinf()
    assert torch.tensor(256.0, dtype=torch.bfloat16) + 1 == 256
    assert torch.tensor(256.0, dtype=torch.float16) + 1 == 257


def test_fp16_ends_at_two_to_the_minus_24():
    assert torch.tensor(2.0**-24).half().item() == 2.0**-24 == pytest.approx(5.96e-8, rel=1e-3)
    assert torch.tensor(2.0**-25).half() == 0 and torch.tensor(3e-8).half() == 2.0**-24
    assert torch.finfo(torch.float16).tiny == pytest.approx(6.1e-5, rel=1e-2)


def test_the_largest_numbers_are_as_the_table_says():
    assert torch.finfo(torch.float16).max == 65_504
    assert torch.finfo(torch.bfloat16).max == pytest.approx(3.39e38, rel=1e-3)


def test_bf16_is_eight_times_coarser_than_fp16():
    assert torch.finfo(torch.bfloat16).eps == 8 * torch.finfo(torch.float16).eps == 2**-7


def test_tf32_is_no_storage():
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        assert torch.zeros(8).untyped_storage().nbytes() == 32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert (FORMATS["tf32"].bits, FORMATS["tf32"].stored_bits) == (19, 32)


GENERAL = "torch.get_float32_matmul_precision()"


def alone(script):
    """What a process of its own prints, word by word: TF32's settings are the process's."""
    return in_a_fork(
        _printed, "import torch\nmatmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn\n" + script
    ).split()


def _printed(script):
    with redirect_stdout(StringIO()) as said:
        exec(script, {})
    return said.getvalue()


def test_tf32_is_off_for_products_and_on_for_convolutions():
    printed = alone("print(matmul.allow_tf32, cudnn.allow_tf32, matmul.fp32_precision, cudnn.conv.fp32_precision)")
    assert printed == ["False", "True", "none", "tf32"]


def test_the_newer_name_of_tf32_does_not_mix_with_the_older():
    read = "\ntry:\n    print(matmul.allow_tf32)\nexcept RuntimeError:\n    print('raises')"
    assert alone("matmul.fp32_precision = 'tf32'" + read) == ["raises"]
    assert alone("matmul.fp32_precision = 'tf32'" + read.replace("matmul.allow_tf32", GENERAL)) == ["raises"]
    assert alone("matmul.fp32_precision = 'ieee'" + read) == ["False"]
    assert alone("torch.set_float32_matmul_precision('high'); print(matmul.fp32_precision)" + read) == ["tf32", "True"]


def test_a_variable_turns_tf32_on_before_anyone_asks():
    asked = "import torch; print(torch.backends.cuda.matmul.allow_tf32, torch.backends.cuda.matmul.fp32_precision)"
    environment = {**os.environ, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "tf32"]


def test_int8_is_from_minus_128_to_127():
    assert (torch.iinfo(torch.int8).min, torch.iinfo(torch.int8).max) == (-128, 127)


def test_weights_and_their_gradients_stay_float32_while_gradients_between_layers_do_not():
    model, between = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), []
    model[0].register_full_backward_hook(lambda module, into, out: between.append(out[0].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randn(3, 4, requires_grad=True))
        loss = F.mse_loss(out, torch.zeros(3, 2))
    loss.backward()
    assert out.dtype == torch.bfloat16 and loss.dtype == torch.float32 and between == [torch.bfloat16]
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {torch.float32}


@pytest.fixture
def virtual():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


def on_the_host(n):
    image, text, bins = frames(n, np.random.default_rng(3))
    return [torch.from_numpy(array) for array in (image, text, bins + len(WORDS))]


def batch(n):
    return [tensor.cuda() for tensor in on_the_host(n)]


def peak(inputs, dtype):
    before = torch.cuda.memory_allocated()
    policy = load().cuda()
    optimizer = torch.optim.AdamW(policy.parameters())
    for n in (1, len(inputs[0])):
        torch.cuda.reset_peak_memory_stats()
        with torch.autocast("cuda", dtype, enabled=dtype is not None):
            loss = policy.loss(*[t[:n] for t in inputs])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss
    return torch.cuda.max_memory_allocated() - before


def test_autocast_saves_nothing_for_one_frame_and_less_than_half_for_many(virtual):
    assert peak(batch(1), torch.bfloat16) >= peak(batch(1), None)
    assert 0.6 < peak(batch(16), torch.bfloat16) / peak(batch(16), None) < 0.95


def test_the_peak_of_one_frame_is_in_the_optimizers_step_and_all_float32(virtual):
    peaks = {}
    for fused in (False, True):
        for dtype in (None, torch.bfloat16):
            policy = load().cuda()
            optimizer = torch.optim.AdamW(policy.parameters(), fused=fused)
            step(policy, optimizer, batch(1), dtype)
            with memory.track(policy, optimizer) as held:
                step(policy, optimizer, batch(1), dtype)
            peaks[fused, dtype] = held.peak_at.phase, held.peak.total
    assert peaks[False, None] == peaks[False, torch.bfloat16] and peaks[False, None][0] == "step"
    assert peaks[True, None] == peaks[True, torch.bfloat16] and peaks[True, None][1] < peaks[False, None][1]


def step(policy, optimizer, inputs, dtype):
    with torch.autocast("cuda", dtype, enabled=dtype is not None):
        loss = policy.loss(*inputs)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def test_the_old_names_warn():
    from torch.cuda.amp import GradScaler, autocast

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name in (autocast, GradScaler):
            with pytest.warns(FutureWarning, match="deprecated. Please use `torch.amp"):
                name()


def test_the_new_autocast_wants_a_device():
    with pytest.raises(TypeError, match="device_type"):
        torch.amp.autocast(dtype=torch.bfloat16)


def test_a_scaler_skips_a_bf16_step_without_a_word(recwarn):
    layer = nn.Linear(2, 1)
    optimizer, scaler, before = (
        torch.optim.SGD(layer.parameters(), lr=0.1),
        torch.amp.GradScaler("cpu"),
        layer.weight.clone(),
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = layer(torch.tensor([[float("inf"), 1.0]])).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(layer.weight, before) and not recwarn.list


def test_a_scaler_makes_the_host_wait_in_every_step(virtual):
    waits = {}
    for enabled in (True, False):
        layer = nn.Linear(8, 8).cuda()
        optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=0.1), torch.amp.GradScaler("cuda", enabled=enabled)
        x = torch.ones(4, 8, device="cuda")
        with gpulab.observe() as seen:
            for _ in range(3):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = layer(x).float().sum()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        waits[enabled] = len(seen.waits)
    assert waits == {True: 3, False: 0}


def test_a_fused_optimizer_skips_without_a_wait(virtual):
    layer = nn.Linear(2, 1, bias=False).cuda()
    optimizer, scaler = torch.optim.AdamW(layer.parameters(), fused=True), torch.amp.GradScaler("cuda")
    before = layer.weight.tolist()
    with gpulab.observe() as seen:
        scaler.scale(layer(torch.full((1, 2), float("inf"), device="cuda")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert not seen.waits and layer.weight.tolist() == before and scaler.get_scale() == 2**15


def test_the_default_of_a_cuda_region_is_float16():
    assert torch.get_autocast_dtype("cuda") == torch.float16


def flowing(dtype, scale=1.0):
    """The share of zeros among activations' gradients, and the weights' gradients."""
    policy, seen = load().cuda(), []
    for module in policy.modules():
        if isinstance(module, nn.Linear):
            module.register_full_backward_hook(lambda module, into, out: seen.append(out[0].flatten()))
    with torch.autocast("cuda", dtype, enabled=dtype is not None):
        loss = policy.loss(*batch(4))
    (loss * scale).backward()
    return (torch.cat(seen) == 0).float().mean().item(), torch.cat(
        [p.grad.flatten() for p in policy.parameters()]
    ).cpu() / scale


def test_fp16_without_a_scale_loses_gradients_that_flow(virtual):
    (exact, right), (bare, _), (scaled, _) = flowing(None), flowing(torch.float16), flowing(torch.float16, 2.0**16)
    assert bare - exact > 0.15 and scaled - exact < 0.01  # of four frames; of more, more
    _, divided = flowing(torch.float16, 2.0**-12)
    assert (divided - right).norm() / right.norm() > 0.03


def test_zeros_of_float32_are_in_the_last_layer_where_few_outputs_are_read():
    policy, shares = load(), {}
    for name, module in policy.named_modules():
        if isinstance(module, nn.Linear):
            module.register_full_backward_hook(
                lambda module, into, out, name=name: shares.update({name: (out[0] == 0).float().mean().item()})
            )
    policy.loss(*on_the_host(2)).backward()
    zero = {name for name, share in shares.items() if share}
    parts = {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}
    assert zero == {f"layers.3.{part}" for part in parts}


def test_the_weights_of_this_policy_hardly_notice_fp16_without_a_scale(virtual):
    (_, right), (_, bare) = flowing(None), flowing(torch.float16)
    assert (bare - right).norm() / right.norm() < 0.01


def test_bf16_keeps_what_fp16_loses():
    small = torch.logspace(-30, -8, 100)
    assert small.bfloat16().ne(0).all() and small.half().eq(0).any()


def test_the_step_is_made_with_unscaled_gradients_or_not_at_all():
    weight = torch.zeros(2, requires_grad=True)
    optimizer, scaler = torch.optim.Adam([weight], lr=1.0), torch.amp.GradScaler("cpu")
    scaler.scale((weight * float("inf")).nansum() + (weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not optimizer.state and weight.eq(0).all()
    plain = torch.optim.SGD([weight], lr=1.0)
    plain.zero_grad()
    scaler.scale((weight * 3).sum()).backward()
    scaler.step(plain)
    assert weight.tolist() == [-3, -3]


def trajectory(gradients, **options):
    weight = torch.zeros((), requires_grad=True)
    optimizer, scaler, scales = torch.optim.SGD([weight], lr=0.0), torch.amp.GradScaler("cpu", **options), []
    for gradient in gradients:
        optimizer.zero_grad()
        scaler.scale(weight * gradient).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


def test_the_scale_doubles_after_clean_steps_whatever_their_size():
    for size in (1e-12, 1.0, 1e12):
        assert trajectory([size] * 4, init_scale=8.0, growth_interval=2) == [8, 16, 16, 32]
    assert trajectory([1.0, float("nan"), float("inf"), 1.0, 1.0], init_scale=8.0, growth_interval=2) == [8, 4, 2, 2, 4]
    assert torch.amp.GradScaler("cpu").get_growth_interval() == 2000


def test_the_first_scale_is_65536():
    assert torch.amp.GradScaler("cpu").get_scale() == 2**16


def clipped(make, unscale_first, gradient, most=1.0):
    """The length of one update, where clipping comes before or after ``unscale_``."""
    weight = torch.zeros(len(gradient), requires_grad=True)
    optimizer, scaler = make([weight]), torch.amp.GradScaler("cpu")
    scaler.scale((weight * gradient).sum()).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([weight], most)
    scaler.step(optimizer)
    return weight.norm().item()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


def adamw(parameters):
    return torch.optim.AdamW(parameters, weight_decay=0.0)


def test_clipping_before_unscaling_shrinks_the_update():
    gradient = torch.full((4,), 5.0)
    assert clipped(sgd, True, gradient) == pytest.approx(1, rel=1e-4)
    assert clipped(sgd, False, gradient) == pytest.approx(2**-16, rel=1e-3)
    small = gradient / 100  # shorter than the threshold: as much less is lost
    assert clipped(sgd, True, small) / clipped(sgd, False, small) == pytest.approx(2**16 / 10, rel=1e-3)


def test_adam_hides_clipping_before_unscaling():
    gradient = torch.full((4,), 5.0)
    assert clipped(adamw, True, gradient) / clipped(adamw, False, gradient) < 1.01
    assert clipped(adamw, False, gradient) == pytest.approx(clipped(adamw, False, 100 * gradient), rel=1e-3)


def test_what_unscaling_found_decides_whatever_clipping_makes_of_it():
    weight = torch.zeros(2, requires_grad=True)
    optimizer, scaler = sgd([weight]), torch.amp.GradScaler("cpu")
    scaler.scale((weight * torch.tensor([float("inf"), 1.0])).sum()).backward()
    scaler.unscale_(optimizer)
    assert nn.utils.clip_grad_norm_([weight], 1.0).isinf()
    weight.grad.zero_()
    scaler.step(optimizer)
    scaler.update()
    assert weight.eq(0).all() and scaler.get_scale() == 2**15


def test_a_scaler_does_not_unscale_the_gradients_of_half_weights():
    layer = nn.Linear(2, 1).half()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(layer(torch.ones(1, 2).half()).float().sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(sgd(layer.parameters()))


def test_a_scaler_does_not_help_where_the_forward_pass_overflows(virtual):
    layer = nn.Linear(8, 1, bias=False, device="cuda")
    nn.init.constant_(layer.weight, 100.0)
    optimizer, scaler = sgd(layer.parameters()), torch.amp.GradScaler("cuda")
    for _ in range(18):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = layer(torch.full((1, 8), 100.0, device="cuda"))
        scaler.scale(out.float().square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert out.isinf() and scaler.get_scale() == 0.25 and layer.weight.eq(100).all()


def test_a_weight_that_is_trained_is_cast_once_and_a_frozen_one_at_each_use(virtual):
    casts = {}
    for trained in (True, False):
        layer, x = (
            nn.Linear(8, 8, bias=False).cuda().requires_grad_(trained),
            torch.ones(1, 8, device="cuda").bfloat16(),
        )
        with gpulab.observe() as seen, torch.autocast("cuda", dtype=torch.bfloat16):
            layer(x), layer(x)
        casts[trained] = sum(op.op == "aten._to_copy" for op in seen.ops)
    assert casts == {True: 1, False: 2}


# Whether accuracy survives, as the H100 measured it.


@cache
def by_format(figure):
    """A figure of each format's runs, by seed."""
    found = {}
    for name, row in evidence.study("does accuracy survive").items():
        found.setdefault(name.rpartition(", seed")[0], []).append(row[figure])
    return found


def test_success_differs_no_more_between_formats_than_between_seeds():
    shares = by_format("success_share")
    means = [sum(found) / len(found) for found in shares.values()]
    assert len(shares) == 6 and {len(found) for found in shares.values()} == {3}
    assert max(means) - min(means) < 0.05 < max(shares["float32"]) - min(shares["float32"])


def test_all_in_bfloat16_has_the_highest_loss_in_each_seed():
    losses = by_format("loss")
    coarse = losses.pop("all in bfloat16")
    assert all(loss > max(found[seed] for found in losses.values()) for seed, loss in enumerate(coarse))


def test_hardly_more_gradients_are_zero_without_the_scaler():
    zeros = by_format("zero_gradients_share")
    scaled, bare = zeros["autocast to float16, GradScaler"], zeros["autocast to float16, no scaler"]
    assert all(0 < without - with_it < 2e-4 for with_it, without in zip(scaled, bare, strict=True))


# A layer in float32, and what autocast refuses.


def test_a_region_that_is_switched_off_keeps_a_layer_in_float32():
    wide, head = nn.Linear(8, 8), nn.Linear(8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = wide(torch.ones(2, 8))
        with torch.autocast("cpu", enabled=False):
            assert hidden.dtype == torch.bfloat16 and head(hidden.float()).dtype == torch.float32
            with pytest.raises(RuntimeError, match="dtype"):
                head(hidden)


def test_the_table_of_cuda_is_of_operations(virtual):
    x = torch.ones(2, 8, device="cuda").half()
    with torch.autocast("cuda", dtype=torch.float16):
        assert F.linear(x.float(), torch.ones(8, 8, device="cuda")).dtype == torch.float16
        assert {x.softmax(1).dtype, x.sum().dtype, F.layer_norm(x, (8,)).dtype} == {torch.float32}
        assert torch.addcmul(x, x, x.float()).dtype == torch.float32


def test_autocast_refuses_the_loss_that_follows_a_sigmoid_and_takes_the_one_that_holds_it(virtual):
    x, labels = torch.zeros(2, 8, device="cuda"), torch.ones(2, 8, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(x.sigmoid(), labels)
        assert F.binary_cross_entropy_with_logits(x.half(), labels).dtype == torch.float32


def test_custom_fwd_casts_and_switches_autocast_off(virtual):
    seen = []

    class Exp(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cuda")))
            ctx.save_for_backward(y := x.exp())
            return y

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            seen.append((gradient.dtype, torch.is_autocast_enabled("cuda")))
            return gradient * ctx.saved_tensors[0]

    x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda", dtype=torch.float16):
        Exp.apply(x).sum().backward()
    assert seen == [(torch.float32, False)] * 2 and x.grad.dtype == torch.float16


def test_a_t4_makes_bfloat16_tensors_and_has_no_units_for_them():
    for name, native in (("T4", False), ("A100", True)):
        with gpulab.cuda.use(f"virtual:{name}", quiet=True):
            assert torch.cuda.is_bf16_supported()
            assert torch.cuda.is_bf16_supported(including_emulation=False) == native
        peaks = CARDS[name].flops_per_s
        assert (peaks["bf16"] == peaks["fp16"]) == native


# The notes' loops.

S0_LOOP = """
from torch.cuda.amp import autocast, GradScaler

model = MyVLAModel().cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = GradScaler()

for input, target in data_loader:
    optimizer.zero_grad()

    with autocast():
        output = model(input)
        loss = loss_fn(output, target)

    scaler.scale(loss).backward()

    scaler.step(optimizer)
    scaler.update()
"""

S3_LOOP = """
from torch.cuda.amp import autocast, GradScaler

scaler = GradScaler()

for batch in dataloader:
    optimizer.zero_grad()

    with autocast(dtype=torch.bfloat16):
        outputs = model(batch)
        loss = criterion(outputs, targets)

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

S3_ACCUMULATION = """
accumulation_steps = 8
effective_batch_size = batch_per_gpu * num_gpus * accumulation_steps

for i, batch in enumerate(dataloader):
    with autocast():
        loss = model(batch) / accumulation_steps

    loss.backward()

    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
"""

S4_SCALER = """
scaler = GradScaler()

loss_scaled = loss * scale_factor

loss_scaled.backward()

scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)

scaler.step(optimizer)

scaler.update()
"""

S4_CLIPPED_WRONG = """
scaler.scale(loss).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
scaler.step(optimizer)
"""

S4_CLIPPED_RIGHT = """
scaler.scale(loss).backward()

scaler.unscale_(optimizer)

torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)

scaler.step(optimizer)
scaler.update()
"""


class Layer(nn.Linear):
    def __init__(self):
        super().__init__(8, 1)
        nn.init.ones_(self.weight)


def run(loop, **names):
    names = {"torch": torch, **names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        exec(loop, names)  # the notes' text, as it stands
    return names


def data(n=4):
    return [(torch.ones(2, 8, device="cuda"), torch.zeros(2, 1, device="cuda")) for _ in range(n)]


def test_the_first_loop_trains_in_fp16_and_keeps_float32_weights(virtual):
    names = run(S0_LOOP, MyVLAModel=Layer, data_loader=data(8), loss_fn=F.mse_loss)
    assert names["output"].dtype == torch.float16 and names["model"].weight.dtype == torch.float32
    assert 1 < names["scaler"].get_scale() < 65536, "its first steps overflow and are skipped"
    assert (names["model"].weight != 1).all()


def test_the_second_loop_scales_a_bf16_loss(virtual):
    model = Layer().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    targets = torch.zeros(2, 1, device="cuda")
    with gpulab.observe() as seen:
        names = run(
            S3_LOOP,
            dataloader=[x for x, _ in data()],
            model=model,
            optimizer=optimizer,
            criterion=F.mse_loss,
            targets=targets,
        )
    assert names["outputs"].dtype == torch.bfloat16 and names["scaler"].is_enabled()
    assert model.weight.grad.dtype == torch.float32 and len(seen.waits) == 4


def test_the_third_loop_loses_a_small_gradient_that_a_scaler_would_keep(virtual):
    from torch.cuda.amp import autocast

    class Small(Layer):
        def forward(self, x):
            return super().forward(x).sum() * 2.0**-24

    model = Small().cuda()
    moved = []
    for loop in (S3_ACCUMULATION, S3_ACCUMULATION.replace("loss.backward()", "(loss * 65536).backward()")):
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        before = model.weight.detach().clone()
        given = dict(batch_per_gpu=2, num_gpus=1, dataloader=[x for x, _ in data(8)], autocast=autocast)
        run(loop, model=model, optimizer=optimizer, **given)
        moved.append((model.weight - before).norm().item())
    assert moved[0] == 0 < moved[1]


def test_the_pseudo_code_of_the_scaler_raises():
    model = Layer()
    loss, names = model(torch.ones(1, 8)).sum(), {"GradScaler": lambda: torch.amp.GradScaler("cpu"), "model": model}
    with pytest.raises(NameError, match="scale_factor"):
        run(S4_SCALER, loss=loss, **names)
    with pytest.raises(AssertionError, match="Attempted unscale_ but _scale is None"):
        run(S4_SCALER, loss=loss, scale_factor=65536, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **names)


def test_the_pair_on_clipping_does_what_the_notes_say():
    moved = {}
    for loop in (S4_CLIPPED_WRONG, S4_CLIPPED_RIGHT):
        model = Layer()
        before = model.weight.detach().clone()
        loss = model(torch.full((1, 8), 100.0)).sum()
        run(
            loop,
            loss=loss,
            model=model,
            scaler=torch.amp.GradScaler("cpu"),
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        )
        moved[loop] = (model.weight - before).norm().item()
    assert moved[S4_CLIPPED_RIGHT] == pytest.approx(1, rel=1e-3) and moved[S4_CLIPPED_WRONG] < 2e-5


def test_updates_below_half_a_step_vanish_in_bf16_and_not_in_a_float32_master():
    weight, master = torch.ones((), dtype=torch.bfloat16), torch.ones(())
    for _ in range(1000):
        weight -= 0.001
        master -= 0.001
    assert weight == 1 and master.bfloat16().abs() < 1e-3
