"""Products in TF32: who rounds, by whose setting, how, and what is left as it was.

Which kernel cuDNN takes for the small inputs of these tests is its own choice: what it may round is asked of the virtual card.
"""

import math

import pytest
import torch
from torch import nn

import gpulab.cuda
import gpulab.evidence
from gpulab import observe
from gpulab.cuda.device.tf32 import rounded

F = torch.nn.functional
ROUGH, EXACT = (1e-4, 1e-3), (0.0, 2e-6)
"""Between which relative errors of random factors lie: rounded to 10 bits of mantissa, and to 23."""


def allow(products: bool = False, cudnn: bool = False) -> None:
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = products, cudnn


@pytest.fixture
def allowed():
    """``allowed(products=..., cudnn=...)`` says what may be rounded; both are off before, and as PyTorch has them after."""
    allow()
    yield allow
    allow(cudnn=True)


def factors(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def error(got, expected) -> float:
    got, expected = got.detach().cpu().to(expected.dtype), expected.detach()
    return ((got - expected).norm() / expected.norm()).item()


def error_of(call, *tensors) -> float:
    """Of what ``call`` gives on the card, held to float64 on the host."""
    wide = [t.to(torch.complex128 if t.is_complex() else torch.float64) for t in tensors]
    return error(call(*(t.cuda() for t in tensors)), call(*wide))


def lies(value: float, span: tuple[float, float]) -> bool:
    return span[0] <= value <= span[1]


SQUARE, BATCH = (128, 128), (4, 96, 96)
PRODUCTS = {
    "mm": (torch.mm, (SQUARE, SQUARE)),
    "matmul of three dimensions": (torch.matmul, (BATCH, (96, 64))),
    "addmm": (torch.addmm, (SQUARE, SQUARE, SQUARE)),
    "addmm_": (lambda c, a, b: c.clone().addmm_(a, b), (SQUARE, SQUARE, SQUARE)),
    "mm into a tensor": (lambda a, b: torch.mm(a, b, out=torch.empty_like(a)), (SQUARE, SQUARE)),
    "bmm": (torch.bmm, (BATCH, BATCH)),
    "baddbmm": (torch.baddbmm, (BATCH, BATCH, BATCH)),
    "addbmm": (torch.addbmm, ((96, 96), BATCH, BATCH)),
    "linear": (F.linear, ((32, 128), (64, 128), (64,))),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), (BATCH, BATCH)),
    "transposed": (lambda a, b: a.t() @ b, (SQUARE, SQUARE)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_float32_is_rounded_where_the_program_allows_it(cuda, allowed, name):
    call, shapes = PRODUCTS[name]
    assert lies(error_of(call, *factors(*shapes)), EXACT)
    allowed(products=True)
    assert lies(error_of(call, *factors(*shapes)), ROUGH)


def test_the_error_of_a_product_is_that_of_an_h100(virtual, allowed):
    allowed(products=True)
    measured = gpulab.evidence.study("formats that a card keeps")["the same in TF32"]["relative_error"]
    assert error_of(torch.mm, *factors((1024, 1024), (1024, 1024))) == pytest.approx(measured, rel=0.02)


def test_complex_products_are_rounded_too(cuda, allowed):
    allowed(products=True)
    a, b = (torch.complex(*factors(SQUARE, SQUARE, seed=seed)) for seed in (1, 2))
    assert lies(error_of(torch.mm, a, b), ROUGH)
    assert lies(error_of(lambda a, b: a.conj() @ b, a, b), ROUGH)


def test_what_is_added_to_a_product_is_not_rounded(cuda, allowed):
    allowed(products=True)
    (summand,), zeros = factors(SQUARE), torch.zeros(SQUARE)
    assert torch.equal(torch.addmm(summand.cuda(), zeros.cuda(), zeros.cuda()).cpu(), summand)


def test_other_formats_and_a_matrix_times_a_vector_are_not_rounded(cuda, allowed):
    allowed(products=True)
    a, b = factors(SQUARE, SQUARE)
    assert lies(error_of(torch.mv, a, b[0]), EXACT)
    assert error_of(torch.mm, a.double(), b.double()) < 1e-14


def test_fused_attention_stays_in_float32(cuda, allowed):
    allowed(products=True)
    query, key, value = (t.cuda() for t in factors(*[(1, 2, 32, 16)] * 3))
    fused = F.scaled_dot_product_attention(query, key, value)
    exact = F.scaled_dot_product_attention(*(t.cpu().double() for t in (query, key, value)))
    assert lies(error(fused, exact), EXACT)


def test_the_factors_themselves_stay_as_they_were(cuda, allowed):
    allowed(products=True, cudnn=True)
    a, images = factors(SQUARE, (2, 3, 8, 8))
    a_there, images_there = a.cuda(), images.cuda()
    a_there @ a_there
    F.conv2d(images_there, images_there)
    assert torch.equal(a_there.cpu(), a) and torch.equal(images_there.cpu(), images)


def gradients(call, tensors, **where):
    leaves = [t.to(**where).requires_grad_() for t in tensors]
    out = call(*leaves)
    out.square().sum().backward()
    return [leaf.grad for leaf in leaves]


def test_products_of_a_backward_pass_are_rounded_when_they_run(cuda, allowed):
    tensors = factors(SQUARE, SQUARE)
    exact = gradients(torch.mm, tensors, dtype=torch.float64)
    leaves = [t.cuda().requires_grad_() for t in tensors]
    loss = (leaves[0] @ leaves[1]).square().sum()
    allowed(products=True)
    loss.backward()
    assert all(lies(error(leaf.grad, one), ROUGH) for leaf, one in zip(leaves, exact))


CONVOLUTIONS = {
    "conv1d": (F.conv1d, ((4, 8, 64), (16, 8, 3), (16,))),
    "conv2d": (F.conv2d, ((4, 8, 16, 16), (16, 8, 3, 3), (16,))),
    "conv2d in groups": (lambda *a: F.conv2d(*a, groups=2), ((4, 8, 16, 16), (16, 4, 3, 3), (16,))),
    "conv3d": (F.conv3d, ((2, 4, 8, 8, 8), (8, 4, 3, 3, 3), (8,))),
    "conv_transpose2d": (F.conv_transpose2d, ((4, 8, 8, 8), (8, 16, 3, 3), (16,))),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_and_its_gradients_are_rounded_by_cudnns_setting(virtual, allowed, name):
    call, shapes = CONVOLUTIONS[name]
    allowed(products=True)
    assert lies(error_of(call, *factors(*shapes)), EXACT)
    allowed(cudnn=True)
    assert lies(error_of(call, *factors(*shapes)), ROUGH)
    exact = gradients(call, factors(*shapes), dtype=torch.float64)
    got = gradients(call, factors(*shapes), device="cuda")
    assert all(lies(error(one, other), (5e-5, 1e-3)) for one, other in zip(got, exact))


def test_a_biass_gradient_is_a_sum_and_is_not_rounded(cuda, allowed):
    allowed(cudnn=True)
    images, weight, bias = (t.cuda().requires_grad_() for t in factors((4, 8, 16, 16), (16, 8, 3, 3), (16,)))
    out = F.conv2d(images, weight, bias)
    (grad,) = factors(out.shape, seed=3)
    out.backward(grad.cuda())
    assert lies(error(bias.grad, grad.double().sum((0, 2, 3))), EXACT)
    weight.requires_grad_(False)
    (grad_of_bias,) = torch.autograd.grad(F.conv2d(images, weight, bias), bias, grad.cuda())
    assert lies(error(grad_of_bias, grad.double().sum((0, 2, 3))), EXACT)


def test_convolutions_are_rounded_unless_a_program_says_otherwise(virtual):
    tensors = factors((4, 8, 16, 16), (16, 8, 3, 3))
    assert lies(error_of(F.conv2d, *tensors), ROUGH)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert lies(error_of(F.conv2d, *tensors), EXACT)


def test_a_depthwise_convolution_is_pytorchs_own_unless_channels_come_last(virtual, allowed):
    allowed(cudnn=True)
    images, weight = factors((4, 8, 16, 16), (8, 1, 3, 3))
    assert lies(error_of(lambda x, w: F.conv2d(x, w, groups=8), images, weight), EXACT)
    last = images.to(memory_format=torch.channels_last)
    assert lies(error_of(lambda x, w: F.conv2d(x, w, groups=8), last, weight), ROUGH)


def test_without_cudnn_a_convolution_goes_by_the_setting_of_products(virtual, allowed):
    tensors = factors((4, 8, 16, 16), (16, 8, 3, 3))
    with torch.backends.cudnn.flags(enabled=False, allow_tf32=True):
        assert lies(error_of(F.conv2d, *tensors), EXACT)
        torch.backends.cuda.matmul.allow_tf32 = True
        assert lies(error_of(F.conv2d, *tensors), ROUGH)


RECURRENT = {
    "LSTM": lambda: nn.LSTM(16, 32),
    "LSTM with projection": lambda: nn.LSTM(16, 32, proj_size=8),
    "GRU": lambda: nn.GRU(16, 32),
    "RNN": lambda: nn.RNN(16, 32, nonlinearity="relu"),
}


def losses(make, dtype, device):
    torch.manual_seed(0)
    layer = make().to(device, dtype)
    out = layer(factors((6, 4, 16))[0].to(device, dtype))[0]
    return layer, out, out.square().sum()


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_layer_is_rounded_by_cudnns_setting(virtual, allowed, name):
    _, exact, _ = losses(RECURRENT[name], torch.float64, "cpu")
    allowed(products=True)
    assert lies(error(losses(RECURRENT[name], torch.float32, "cuda")[1], exact), EXACT)
    allowed(cudnn=True)
    assert lies(error(losses(RECURRENT[name], torch.float32, "cuda")[1], exact), (5e-5, 2e-3))


@pytest.mark.parametrize("name", RECURRENT)
def test_so_are_its_gradients(virtual, allowed, name):
    layer, _, loss = losses(RECURRENT[name], torch.float64, "cpu")
    loss.backward()
    exact = [p.grad for p in layer.parameters()]
    for products, cudnn, span in ((True, False, EXACT), (False, True, (2e-5, 2e-3))):
        allowed()
        layer, _, loss = losses(RECURRENT[name], torch.float32, "cuda")
        allowed(products, cudnn)
        loss.backward()
        assert all(lies(error(p.grad, one), span) for p, one in zip(layer.parameters(), exact))


def test_a_cell_is_made_of_products_and_goes_by_their_setting(virtual, allowed):
    torch.manual_seed(0)
    cell = nn.GRUCell(16, 32)
    (x,) = factors((4, 16))
    exact = cell.double()(x.double())
    cell.float().cuda()
    allowed(cudnn=True)
    assert lies(error(cell(x.cuda()), exact), EXACT)
    allowed(products=True)
    assert lies(error(cell(x.cuda()), exact), (5e-5, 1e-3))


def test_a_captured_product_keeps_the_precision_of_the_capture(cuda, allowed):
    a, b = factors(SQUARE, SQUARE)
    exact = a.double() @ b.double()
    left, right, graph = a.cuda(), b.cuda(), torch.cuda.CUDAGraph()
    allowed(products=True)
    left @ right
    with torch.cuda.graph(graph):
        out = left @ right
    allowed()
    graph.replay()
    assert lies(error(out, exact), ROUGH)


def test_an_older_card_has_no_tf32(allowed):
    allowed(products=True, cudnn=True)
    with gpulab.cuda.use("virtual:T4", quiet=True):
        assert lies(error_of(torch.mm, *factors(SQUARE, SQUARE)), EXACT)
        assert lies(error_of(F.conv2d, *factors((4, 8, 16, 16), (16, 8, 3, 3))), EXACT)


def seen_of_a_step(model, images):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with observe() as seen:
        model(images).sum().backward()
    return [k.name for k in seen.kernels], torch.cuda.max_memory_allocated() - before, len(seen.copies)


def test_the_machine_sees_nothing_of_the_rounding(virtual, allowed):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 4)).cuda()
    images = factors((2, 3, 8, 8))[0].cuda()
    seen_of_a_step(model, images)
    model.zero_grad()
    exact = seen_of_a_step(model, images)
    allowed(products=True, cudnn=True)
    model.zero_grad()
    assert seen_of_a_step(model, images) == exact


def test_a_ghost_has_shapes_and_nothing_to_round(allowed):
    allowed(products=True, cudnn=True)
    with gpulab.cuda.use("ghost:H100", quiet=True):
        a = torch.empty(64, 64, device="cuda")
        assert (a @ a).shape == (64, 64)


STEP = 2.0**-10
ROUNDED = [
    (1 + STEP / 2, 1 + STEP),
    (-1 - STEP / 2, -1 - STEP),
    (1 + STEP / 2 - 2**-23, 1.0),
    (1 + 3 * STEP / 2, 1 + 2 * STEP),
    (2 - STEP / 4, 2.0),
    (3.4028234663852886e38, math.inf),
    (2.0**-149, 0.0),
    (2.0**-136, 2.0**-136),
    (0.0, 0.0),
    (math.inf, math.inf),
    (-math.inf, -math.inf),
]


@pytest.mark.parametrize(("value", "near"), ROUNDED)
def test_a_number_goes_to_the_nearest_of_ten_bits_and_from_the_middle_away_from_zero(value, near):
    assert rounded(torch.tensor([value])).item() == near


def test_nan_stays_nan_whatever_its_bits():
    bits = torch.tensor([0x7FFFFFFF, 0x7F800001, -1], dtype=torch.int32)
    assert rounded(bits.view(torch.float32)).isnan().all()
