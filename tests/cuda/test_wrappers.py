"""Tensors that are made of others (nested, quantised, two in one): they and a device tensor meet as on a card."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import gpulab

pytestmark = [pytest.mark.usefixtures("cuda"), pytest.mark.filterwarnings("ignore:.*nested tensors")]


def two(device="cuda") -> TwoTensor:
    return TwoTensor(torch.full((2, 2), 1.0, device=device), torch.full((2, 2), 2.0, device=device))


def jagged(device="cuda", **options):
    parts = [torch.ones(2, 3, device=device), torch.ones(4, 3, device=device)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, device=device, **options)


@pytest.mark.parametrize(
    "together",
    [
        lambda t, w: t + w,
        lambda t, w: w + t,
        lambda t, w: t @ w,
        lambda t, w: torch.cat([t, w]),
        lambda t, w: torch.cat([w, t]),
        lambda t, w: torch.stack([t, w]),
        lambda t, w: torch._foreach_add([t, t], [w, w])[1],
        lambda t, w: torch.where(t > 0, t, w),
        lambda t, w: torch.nn.functional.linear(t, w),
    ],
    ids=["t + w", "w + t", "t @ w", "cat", "cat, w first", "stack", "foreach", "where", "linear"],
)
def test_a_plain_tensor_and_one_made_of_two_give_one_made_of_two(together):
    out = together(torch.ones(2, 2, device="cuda"), two())
    host = together(torch.ones(2, 2), two("cpu"))
    assert type(out) is TwoTensor and out.is_cuda and out.a.is_cuda
    assert torch.equal(out.a.cpu(), host.a) and torch.equal(out.b.cpu(), host.b)


def test_what_a_tensor_is_made_of_travels_with_it():
    with gpulab.observe() as seen:
        there = two("cpu").cuda()
        back = there.cpu()
    assert type(there) is TwoTensor and there.device == torch.device("cuda", 0) and there.get_device() == 0
    assert there.is_cuda and not there.is_cpu and there.a.is_cuda
    assert type(back) is TwoTensor and not back.is_cuda and not back.b.is_cuda and torch.equal(back.b, two("cpu").b)
    assert [copy.kind for copy in seen.copies] == ["HtoD", "HtoD", "DtoH", "DtoH"]


def test_it_is_converted_on_its_way():
    there = two("cpu").to("cuda", torch.float16)
    assert there.dtype == there.a.dtype == torch.float16 and there.a.is_cuda
    assert there.to("cpu", torch.float32).b.dtype == torch.float32


def test_its_gradient_travels_back():
    weight = two("cpu").requires_grad_()
    (weight.cuda() * 3).sum().backward()
    assert type(weight.grad) is TwoTensor and not weight.grad.is_cuda and not weight.grad.a.is_cuda
    assert weight.grad.a.tolist() == [[3, 3], [3, 3]]


def test_autograd_goes_through_one_that_is_on_the_card():
    weight = two().requires_grad_()
    torch.nn.functional.linear(torch.ones(1, 2, device="cuda"), weight).sum().backward()
    assert weight.grad.is_cuda and weight.grad.a.is_cuda and weight.grad.b.tolist() == [[1, 1], [1, 1]]


def test_a_module_moves_one():
    layer = torch.nn.Linear(2, 2)
    layer.weight = torch.nn.Parameter(two("cpu"))
    layer.cuda()
    assert type(layer.weight) is TwoTensor and layer.weight.is_cuda
    assert layer(torch.ones(1, 2, device="cuda")).is_cuda


def test_jagged_tensors_are_made_on_the_card_and_moved_there():
    for nested in (jagged(), jagged("cpu").cuda(), jagged("cpu").to("cuda", non_blocking=True)):
        assert nested.is_cuda and nested.values().is_cuda and nested.offsets().is_cuda
        assert [part.shape for part in nested.unbind()] == [(2, 3), (4, 3)]
    assert not jagged().cpu().values().is_cuda


def test_a_layer_takes_a_jagged_tensor_and_trains():
    torch.manual_seed(0)
    host = torch.nn.Linear(3, 2)
    card = torch.nn.Linear(3, 2).cuda()
    card.load_state_dict(host.state_dict())
    for layer, nested in ((host, jagged("cpu")), (card, jagged())):
        torch.nn.functional.softmax(layer(nested), -1).values().square().sum().backward()
    assert torch.allclose(card.weight.grad.cpu(), host.weight.grad)


def test_a_jagged_tensor_gets_its_gradient():
    nested = jagged(requires_grad=True)
    (nested * 2).values().sum().backward()
    assert nested.grad.is_cuda and nested.grad.values().unique().tolist() == [2]


def test_padding_and_attention_know_jagged_tensors():
    heads = jagged().unflatten(-1, [1, 3]).transpose(1, 2)
    out = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    assert out.is_cuda and torch.allclose(out.values().cpu(), torch.ones(1))
    assert torch.nested.to_padded_tensor(jagged(), 0.0).sum().item() == 18
