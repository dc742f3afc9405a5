"""CUDA's cast policy, for every operation of its lists; loss scaling."""

import pytest
import torch

import gpulab
from gpulab.cuda import NotModelled
from gpulab.cuda.device.autocast_policy import BANNED, FP32, LOWER, RESULT, WIDEST

pytestmark = pytest.mark.usefixtures("cuda")
F = torch.nn.functional


def full(*shape):
    return torch.rand(*shape, device="cuda") + 0.1


def half(*shape):
    return full(*shape).half()


def labels(*shape):
    return torch.zeros(*shape, dtype=torch.long, device="cuda")


LOWERS = {
    "mm": lambda: torch.mm(full(2, 3), full(3, 2)),
    "matmul": lambda: full(2, 3) @ full(3, 2),
    "bmm": lambda: torch.bmm(full(1, 2, 3), full(1, 3, 2)),
    "mv": lambda: torch.mv(full(2, 3), full(3)),
    "addmm": lambda: torch.addmm(full(2, 2), full(2, 3), full(3, 2)),
    "addbmm": lambda: torch.addbmm(full(2, 2), full(1, 2, 3), full(1, 3, 2)),
    "baddbmm": lambda: torch.baddbmm(full(1, 2, 2), full(1, 2, 3), full(1, 3, 2)),
    "addmv": lambda: torch.addmv(full(2), full(2, 3), full(3)),
    "addr": lambda: torch.addr(full(2, 3), full(2), full(3)),
    "einsum": lambda: torch.einsum("ij,jk->ik", full(2, 3), full(3, 2)),
    "linear": lambda: F.linear(full(2, 3), full(4, 3), full(4)),
    "conv1d": lambda: F.conv1d(full(1, 2, 8), full(3, 2, 3)),
    "conv2d": lambda: F.conv2d(full(1, 2, 8, 8), full(3, 2, 3, 3)),
    "conv3d": lambda: F.conv3d(full(1, 2, 4, 4, 4), full(3, 2, 3, 3, 3)),
    "conv_transpose1d": lambda: F.conv_transpose1d(full(1, 2, 8), full(2, 3, 3)),
    "conv_transpose2d": lambda: F.conv_transpose2d(full(1, 2, 8, 8), full(2, 3, 3, 3)),
    "chain_matmul": lambda: torch.linalg.multi_dot([full(2, 3), full(3, 2), full(2, 3)]),
    "prelu": lambda: F.prelu(full(2, 3), full(3)),
    "attention": lambda: F.scaled_dot_product_attention(*(full(1, 2, 4, 8) for _ in range(3))),
    "LSTM cell": lambda: torch.nn.LSTMCell(3, 4).cuda()(full(2, 3))[0],
    "GRU cell": lambda: torch.nn.GRUCell(3, 4).cuda()(full(2, 3)),
}

FULLS = {
    **{name: (lambda f: lambda: f(half(2, 3)))(getattr(torch, name)) for name in (
        "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p",
        "reciprocal", "rsqrt", "sinh", "tan", "sum", "prod",
    )},
    "pow": lambda: half(2, 3) ** 2,
    "rpow": lambda: torch.pow(2.0, half(2, 3)),
    "pow of tensors": lambda: torch.pow(half(2), half(2)),
    "softmax": lambda: F.softmax(half(2, 3), -1),
    "log_softmax": lambda: F.log_softmax(half(2, 3), -1),
    "softplus": lambda: F.softplus(half(2, 3)),
    "layer_norm": lambda: F.layer_norm(half(2, 3), (3,)),
    "group_norm": lambda: F.group_norm(half(2, 4, 3), 2),
    "norm": lambda: half(2, 3).norm(),
    "vector_norm": lambda: torch.linalg.vector_norm(half(3)),
    "matrix_norm": lambda: torch.linalg.matrix_norm(half(3, 3)),
    "sum over a dimension": lambda: half(2, 3).sum(0),
    "prod over a dimension": lambda: half(2, 3).prod(0),
    "cumsum": lambda: half(2, 3).cumsum(0),
    "cumprod": lambda: half(2, 3).cumprod(0),
    "logsumexp": lambda: half(2, 3).logsumexp(0),
    "dist": lambda: torch.dist(half(3), half(3)),
    "cdist": lambda: torch.cdist(half(2, 3), half(2, 3)),
    "pdist": lambda: F.pdist(half(3, 3)),
    "renorm": lambda: torch.renorm(half(2, 3), 2, 0, 1.0),
    "cosine_similarity": lambda: F.cosine_similarity(half(2, 3), half(2, 3)),
    "nll_loss": lambda: F.nll_loss(half(2, 3), labels(2)),
    "cross_entropy": lambda: F.cross_entropy(half(2, 3), labels(2)),
    "mse_loss": lambda: F.mse_loss(half(2), half(2)),
    "l1_loss": lambda: F.l1_loss(half(2), half(2)),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(half(2), half(2)),
    "huber_loss": lambda: F.huber_loss(half(2), half(2)),
    "kl_div": lambda: F.kl_div(half(2, 3), half(2, 3), reduction="batchmean"),
    "bce_with_logits": lambda: F.binary_cross_entropy_with_logits(half(2), half(2)),
    "hinge_embedding_loss": lambda: F.hinge_embedding_loss(half(2), half(2)),
    "soft_margin_loss": lambda: F.soft_margin_loss(half(2), half(2)),
    "poisson_nll_loss": lambda: F.poisson_nll_loss(half(2), half(2)),
    "triplet_margin_loss": lambda: F.triplet_margin_loss(half(2, 3), half(2, 3), half(2, 3)),
    "margin_ranking_loss": lambda: F.margin_ranking_loss(half(2), half(2), half(2)),
    "cosine_embedding_loss": lambda: F.cosine_embedding_loss(half(2, 3), half(2, 3), half(2)),
    "multi_margin_loss": lambda: F.multi_margin_loss(half(2, 3), labels(2)),
    "upsample": lambda: F.interpolate(half(1, 1, 2, 2), scale_factor=2, mode="nearest"),
}  # fmt: skip

KEEPS = {
    "add": lambda: half(2) + half(2),
    "mul by a number": lambda: half(2) * 2,
    "relu": lambda: half(2).relu(),
    "gelu": lambda: F.gelu(half(2)),
    "sigmoid": lambda: half(2).sigmoid(),
    "tanh": lambda: half(2).tanh(),
    "mean": lambda: half(2, 3).mean(),
    "max": lambda: half(2, 3).amax(),
    "cat": lambda: torch.cat([half(2), half(2)]),
    "dropout": lambda: F.dropout(half(2)),
    "embedding": lambda: F.embedding(labels(2), half(3, 2)),
    "max_pool2d": lambda: F.max_pool2d(half(1, 1, 4, 4), 2),
}

WIDE = {
    "addcmul": lambda: torch.addcmul(full(2), half(2), half(2)),
    "addcdiv": lambda: torch.addcdiv(full(2), half(2), half(2)),
    "atan2": lambda: torch.atan2(full(2), half(2)),
    "cross": lambda: torch.cross(full(1, 3), half(1, 3), dim=1),
    "dot": lambda: torch.dot(full(3), half(3)),
    "tensordot": lambda: torch.tensordot(full(2, 2), half(2, 2)),
    "index_put": lambda: torch.index_put(full(3), (labels(1),), half(1)),
    "scatter_add": lambda: torch.scatter_add(full(3), 0, labels(1), half(1)),
    "bilinear": lambda: F.bilinear(full(2, 3), half(2, 3), full(1, 3, 3)),
    "grid_sample": lambda: F.grid_sample(full(1, 1, 2, 2), half(1, 2, 2, 2), align_corners=False),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LOWERS)
def test_runs_in_the_lower_precision(name, dtype):
    with torch.autocast("cuda", dtype=dtype):
        assert LOWERS[name]().dtype == dtype


@pytest.mark.parametrize("name", FULLS)
def test_runs_in_float32(name):
    with torch.autocast("cuda", dtype=torch.float16):
        assert FULLS[name]().dtype == torch.float32


IN_ONE = {
    "sum": lambda: half(2, 3).sum(),
    "sum over a dimension": lambda: half(2, 3).sum(0),
    "prod": lambda: half(2, 3).prod(),
    "cumsum": lambda: half(2, 3).cumsum(0),
    "vector_norm": lambda: torch.linalg.vector_norm(half(3)),
    "norm": lambda: torch.ops.aten.norm.Scalar(half(3)),
    "norm over a dimension": lambda: torch.ops.aten.norm.ScalarOpt_dim(half(2, 3), 2, [0]),
}


@pytest.mark.parametrize("name", IN_ONE)
def test_reads_16_bits_and_writes_float32_in_one_operation(name, virtual):
    with gpulab.observe() as seen, torch.autocast("cuda", dtype=torch.float16):
        assert IN_ONE[name]().dtype == torch.float32
    assert not [op.op for op in seen.ops if op.op == "aten._to_copy" and op.dtype == "float32"]


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_a_softmax_of_bfloat16_is_cast_up_first(function, virtual):
    x = full(2, 3).bfloat16()
    with gpulab.observe() as seen, torch.autocast("cuda", dtype=torch.bfloat16):
        function(x, -1)
    assert [op.dtype for op in seen.ops] == ["float32"] * 2 and seen.ops[0].op == "aten._to_copy"


def test_a_dtype_that_the_call_names_stands():
    x = full(2, 3)
    with torch.autocast("cuda", dtype=torch.float16):
        asked = [x.sum(dtype=torch.float16), F.softmax(x, -1, dtype=torch.float16), x.cumsum(0, dtype=torch.float16)]
        assert {t.dtype for t in asked} == {torch.float16}


def test_cross_entropy_of_16_bit_logits_takes_its_logarithms_in_16_bits(virtual):
    logits = full(2, 3).bfloat16()
    with gpulab.observe() as seen, torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(logits, labels(2))
    ran = [(op.op.removeprefix("aten."), op.dtype) for op in seen.ops]
    assert (
        ("_log_softmax", "bfloat16") in ran and ("nll_loss_forward", "float32") in ran and loss.dtype == torch.float32
    )
    assert [dtype for op, dtype in ran if op == "_to_copy"] == ["float32"], "for the mean alone"


@pytest.mark.parametrize("name", KEEPS)
def test_keeps_its_inputs_precision(name):
    with torch.autocast("cuda", dtype=torch.float16):
        assert KEEPS[name]().dtype == torch.float16


@pytest.mark.parametrize("name", WIDE)
def test_runs_in_the_widest_of_its_inputs(name):
    with torch.autocast("cuda", dtype=torch.float16):
        assert WIDE[name]().dtype == torch.float32


def test_every_op_that_pytorch_lists_has_a_policy_here():
    listed = {n.removeprefix("aten::") for n in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")}
    # Named dimensions went with PyTorch 2.13; on 2.11 they are not autocast here.
    named = {n for n in listed if "imname" in n or "names" in n}
    assert listed - named - LOWER - FP32 - RESULT - WIDEST - set(BANNED) == set()


def test_no_op_has_two_policies():
    lists = (LOWER, FP32, RESULT, WIDEST, set(BANNED))
    assert len(set().union(*lists)) == sum(map(len, lists))


def test_float64_is_left_alone():
    x = torch.rand(2, 2, device="cuda", dtype=torch.float64)
    with torch.autocast("cuda"):
        assert (x @ x).dtype == torch.float64 and x.exp().dtype == torch.float64


def test_the_default_is_float16():
    with torch.autocast("cuda"):
        assert (full(2, 2) @ full(2, 2)).dtype == torch.float16


def test_an_inner_region_switches_it_off():
    with torch.autocast("cuda"):
        with torch.autocast("cuda", enabled=False):
            assert (full(2, 2) @ full(2, 2)).dtype == torch.float32
        assert (full(2, 2) @ full(2, 2)).dtype == torch.float16


def test_host_tensors_are_not_touched():
    with torch.autocast("cuda"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")


def test_checkpointing_recomputes_in_the_same_precision():
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    layer, seen = torch.nn.Linear(4, 4).cuda(), []

    def function(x):
        y = layer(x)
        seen.append(y.dtype)
        return y.float()

    with torch.autocast("cuda", dtype=torch.bfloat16):
        with set_checkpoint_early_stop(False):
            loss = checkpoint(function, full(2, 4), use_reentrant=False).sum()
    loss.backward()
    assert seen == [torch.bfloat16] * 2


def test_device_tensors_in_a_host_region_are_refused_not_cast(virtual):
    x = full(2, 2)
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        with pytest.raises(NotModelled, match="inside torch.autocast"):
            x @ x
    assert (x @ x).dtype == torch.float32


def test_binary_cross_entropy_is_refused():
    with torch.autocast("cuda"):
        with pytest.raises(RuntimeError, match="are unsafe to autocast"):
            F.binary_cross_entropy(full(2).sigmoid(), full(2).sigmoid())


def test_weights_and_their_gradients_stay_float32():
    layer = torch.nn.Linear(4, 4).cuda()
    with torch.autocast("cuda"):
        loss = layer(full(2, 4)).float().sum()
    loss.backward()
    assert layer.weight.dtype == layer.weight.grad.dtype == torch.float32


def test_a_weight_used_twice_is_cast_once():
    layer = torch.nn.Linear(512, 512, bias=False).cuda()
    x = full(1, 512)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda"):
        one, two = layer(x), layer(x)
        assert torch.cuda.memory_allocated() - before < 2 * 512 * 512 * 2
    del one, two


def test_the_region_ends_after_an_error():
    with pytest.raises(ZeroDivisionError):
        with torch.autocast("cuda"):
            1 / 0
    assert not torch.is_autocast_enabled("cuda") and (full(2, 2) @ full(2, 2)).dtype == torch.float32


def trained(scaler, gradient=1.0):
    weight = torch.ones(2, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler.scale((weight * gradient).sum()).backward()
    scaled = weight.grad.tolist()
    scaler.step(optimizer)
    scaler.update()
    return weight, scaled


def test_the_scaler_scales_the_loss_and_unscales_the_step():
    weight, scaled = trained(torch.amp.GradScaler("cuda", init_scale=8.0))
    assert scaled == [8, 8] and weight.tolist() == [0.5, 0.5]


def test_an_infinite_gradient_skips_the_step_and_halves_the_scale():
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    weight, _ = trained(scaler, float("inf"))
    assert weight.tolist() == [1, 1] and scaler.get_scale() == 4.0


def test_the_scale_doubles_after_enough_steps():
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=2)
    trained(scaler)
    trained(scaler)
    assert scaler.get_scale() == 16.0


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_a_recurrent_layer_runs_in_the_lower_precision(kind):
    layer = kind(4, 4).cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        out, state = layer(torch.ones(2, 1, 4, device="cuda"))
    state = state if isinstance(state, tuple) else (state,)
    assert {t.dtype for t in (out, *state)} == {torch.float16}
    out.float().sum().backward()
    assert layer.weight_hh_l0.grad.dtype == torch.float32


def test_the_device_may_have_an_index():
    x = torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda:0", dtype=torch.float16):
        assert (x @ x).dtype == torch.float16
    assert (x @ x).dtype == torch.float32


def test_the_dtype_that_was_set_goes_with_the_device(virtual):
    import gpulab.cuda

    before = torch.get_autocast_dtype("cuda")
    with gpulab.cuda.use("virtual:A100", quiet=True):
        torch.set_autocast_dtype("cuda", torch.bfloat16)
    assert torch.get_autocast_dtype("cuda") == before
