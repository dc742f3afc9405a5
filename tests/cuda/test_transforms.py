"""torch.func: vmap, grad and their kin over device tensors."""

import pytest
import torch
from torch.func import grad, hessian, jacrev, jvp, vmap

pytestmark = pytest.mark.usefixtures("cuda")


@pytest.fixture
def x(cuda):
    return torch.arange(6.0, device="cuda").view(2, 3)


@pytest.mark.parametrize("transform", [vmap, lambda f: grad(lambda row: f(row).sum())], ids=["vmap", "grad"])
def test_a_tensor_inside_says_that_it_is_on_the_device(transform, x):
    def function(t):
        assert t.is_cuda and t.device == x.device and not t.is_cpu
        return t * 2

    transform(function)(x)


MAKES = {
    "ones": lambda n, device: torch.ones(n, device=device),
    "arange": lambda n, device: torch.arange(n, device=device),
    "tensor": lambda n, device: torch.tensor([2.0] * n, device=device),
}


@pytest.mark.parametrize("name", MAKES)
def test_a_factory_inside_takes_the_device_of_what_it_is_added_to(name, x):
    make = MAKES[name]
    constant = make(3, device="cuda")
    assert torch.equal(vmap(lambda t: t * make(3, device=t.device))(x), x * constant)
    assert torch.equal(grad(lambda t: (t * make(3, device=t.device)).sum())(x), constant.expand(2, 3).float())


def test_forward_mode_gives_the_derivative(x):
    value, slope = jvp(lambda t: t * t, (x,), (torch.ones_like(x),))
    assert slope.is_cuda and torch.equal(slope, 2 * x)


def test_a_hessian_is_the_derivative_of_a_derivative(x):
    assert torch.equal(hessian(lambda t: (t**3).sum())(x[0]), torch.diag(6 * x[0]))


def test_a_jacobian_is_on_the_device(x):
    assert jacrev(lambda t: t**2)(x[0]).is_cuda


def test_a_dtype_may_be_changed_inside(x):
    assert vmap(lambda t: t.to("cuda", torch.half))(x).dtype == torch.half
    assert vmap(lambda t: t.cuda())(x).is_cuda


def test_leaving_the_device_inside_is_not_modelled(virtual):
    from gpulab.cuda import NotModelled

    x = torch.ones(2, 3, device="cuda")
    with pytest.raises(NotModelled, match="torch.func"):
        vmap(lambda t: t.cpu())(x)
    with pytest.raises(NotModelled, match="torch.func"):
        vmap(lambda t: t + torch.randn(3, device="cuda"), randomness="different")(x)
