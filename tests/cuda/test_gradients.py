"""Gradients and the device that they belong to."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("cuda")


def leaf(*shape):
    return torch.ones(*shape, device="cuda", requires_grad=True)


def test_a_first_gradient_on_the_host_is_refused():
    x = leaf(3)
    with pytest.raises(RuntimeError, match="invalid gradient at index 0 - expected device cuda:0 but got cpu"):
        (x * 2).backward(torch.ones(3))
    with pytest.raises(RuntimeError, match="invalid gradient at index 0 - expected device cuda:0 but got cpu"):
        torch.autograd.grad(x * 2, x, torch.ones(3))
    assert x.grad is None


def test_a_first_gradient_of_one_number_may_come_from_the_host():
    x = leaf(3)
    x.sum().backward(torch.tensor(2.0))
    assert x.grad.is_cuda and x.grad.tolist() == [2, 2, 2]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gradient):
        ctx.gradient = gradient
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return ctx.gradient(gradient), None


@pytest.mark.parametrize("inner", [lambda x: x, lambda x: x * 1], ids=["a leaf", "inside a graph"])
def test_a_function_whose_backward_returns_a_host_gradient_is_refused(inner):
    wrong = "DoubledBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu"
    with pytest.raises(RuntimeError, match=wrong):
        Doubled.apply(inner(leaf(3)), lambda gradient: torch.zeros(3)).sum().backward()


def test_a_function_whose_backward_mixes_devices_is_refused():
    factors = torch.ones(3)
    with pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu"):
        Doubled.apply(leaf(3), lambda gradient: gradient * factors).sum().backward()


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        return (first * 2 + second * 3) * x


def test_the_gradient_of_an_output_that_nobody_used_is_zeros_on_the_device():
    x = leaf(3)
    TwoOutputs.apply(x)[1].sum().backward()
    assert x.grad.is_cuda and x.grad.tolist() == [3, 3, 3]


def test_a_host_tensor_is_no_gradient_of_a_device_tensor():
    x = leaf(3)
    with pytest.raises(RuntimeError, match="gradient with device type 'cpu' to a tensor with device type 'cuda'"):
        x.grad = torch.ones(3)
    x.grad = torch.ones(3, device="cuda")
    x.grad = None


def test_the_gradient_of_a_copy_into_the_other_side_travels_back():
    on_host, on_card = torch.ones(3, requires_grad=True), leaf(3)
    torch.zeros(3, device="cuda").copy_(on_host).sum().backward()
    torch.zeros(3).copy_(on_card).sum().backward()
    assert on_host.grad.device.type == "cpu" and on_card.grad.is_cuda


FLAT = {
    "sgn": torch.sgn,
    "copysign": lambda x: torch.copysign(torch.ones_like(x), x),
    "repeat nothing": lambda x: x.repeat(0),
    "cat of an empty one": lambda x: torch.cat([x[:0], torch.ones_like(x)]),
}


@pytest.mark.parametrize("name", FLAT)
def test_a_gradient_without_slope_is_on_the_card(cuda, name):
    x = torch.ones(3, device="cuda", requires_grad=True)
    FLAT[name](x).sum().backward()
    assert x.grad.is_cuda and type(x.grad) is type(x.detach())
    torch.optim.Adam([x]).step()
    (again,) = torch.autograd.grad(FLAT[name](x).sum(), x)
    assert again.is_cuda and not again.any()


def test_forward_mode_gives_a_tangent_on_the_card(cuda):
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.eye(3, device="cuda"), torch.ones(3, 3, device="cuda"))
        sign = torch.autograd.forward_ad.unpack_dual(torch.linalg.slogdet(x).sign)
    assert sign.tangent is None or sign.tangent.is_cuda


def test_a_gradient_stays_where_it_is_when_the_data_of_its_tensor_goes_to_the_card():
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.full((3,), 2.0)
    weight.data = weight.data.cuda()
    assert weight.is_cuda and not weight.grad.is_cuda and weight.grad.tolist() == [2, 2, 2]
    weight.grad = weight.grad.cuda()
    torch.optim.SGD([weight], 1.0).step()
    assert weight.tolist() == [-1, -1, -1]


def test_a_gradient_stays_on_the_card_when_the_data_goes_to_the_host_and_back():
    weight = torch.nn.Parameter(torch.ones(3, device="cuda"))
    weight.grad = gradient = torch.full((3,), 2.0, device="cuda")
    weight.data = weight.data.cpu()
    assert not weight.is_cuda and weight.grad.is_cuda
    weight.data = weight.data.cuda()
    assert weight.grad is gradient and weight.grad.tolist() == [2, 2, 2]


def test_an_optimizer_refuses_a_gradient_that_stayed_behind():
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    weight.data = weight.data.cuda()
    with pytest.raises(RuntimeError, match="same device"):
        torch.optim.SGD([weight], 1.0).step()
