"""Classes that a program derives from Tensor and Parameter, and what it sets on a parameter."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention.bias import CausalBias, causal_lower_right

import gpulab
import gpulab.cuda


class Tagged(torch.nn.Parameter):
    pass


class Named(torch.Tensor):
    pass


class Quantised(torch.nn.Parameter):
    """As libraries write them: it becomes another thing on its way to the card."""

    def __new__(cls, data=None, requires_grad=False, scale=None):
        self = torch.Tensor._make_subclass(cls, data, requires_grad)
        self.scale = scale
        return self

    def cuda(self, device=None):
        values = self.data.cuda(device)
        self.scale = values.abs().max()
        self.data = (values / self.scale * 127).round().to(torch.int8)
        return self


@pytest.mark.parametrize("move", ["cuda", "half", "cpu"])
def test_what_is_set_on_a_parameter_stays_when_its_module_moves(cuda, move):
    layer = torch.nn.Linear(2, 2)
    if move == "half":
        layer.cuda()
    weight = layer.weight
    weight.no_decay = True
    getattr(layer, move)()
    assert layer.weight is weight and weight.no_decay


def test_a_derived_parameter_keeps_its_class_when_its_module_moves(cuda):
    layer = torch.nn.Linear(2, 2)
    layer.weight = Tagged(layer.weight.data)
    layer.cuda()
    assert isinstance(layer.weight, Tagged) and isinstance(layer.weight, torch.nn.Parameter)
    assert layer.weight.is_cuda and layer(torch.ones(1, 2, device="cuda")).is_cuda
    layer.cpu()
    assert type(layer.weight) is Tagged and not layer.weight.is_cuda


def test_a_derived_parameter_is_made_of_a_device_tensor(cuda):
    made = Tagged(torch.ones(2, device="cuda"))
    assert isinstance(made, Tagged) and made.is_cuda and made.requires_grad
    (made * 3).sum().backward()
    assert made.grad.is_cuda and made.grad.tolist() == [3, 3]
    assert isinstance(copy.deepcopy(made), Tagged)


def test_a_derived_parameter_trains(cuda):
    layer = torch.nn.Linear(2, 1)
    layer.weight = Tagged(torch.ones(1, 2))
    layer.cuda()
    layer(torch.ones(1, 2, device="cuda")).sum().backward()
    torch.optim.SGD(layer.parameters(), 1.0).step()
    assert layer.weight.tolist() == [[0, 0]] and isinstance(layer.weight, Tagged)


def test_a_parameter_with_a_move_of_its_own_makes_it(cuda):
    layer = torch.nn.Linear(2, 2)
    layer.weight = Quantised(torch.tensor([[2.0, -1.0], [0.0, 2.0]]))
    layer.cuda()
    assert isinstance(layer.weight, Quantised) and layer.weight.dtype == torch.int8
    assert layer.weight.scale.is_cuda and layer.weight.tolist() == [[127, -64], [0, 127]]


def test_a_derived_tensor_keeps_its_class_between_host_and_card(cuda):
    there = torch.ones(2).as_subclass(Named).cuda()
    assert isinstance(there, Named) and there.is_cuda
    assert type(there.cpu()) is Named
    assert isinstance(torch.ones(2, device="cuda").as_subclass(Named), Named)


@pytest.mark.parametrize("watched", [False, True])
def test_a_causal_bias_is_made_inside_and_outside_of_an_observation_and_aligns_lower_right(cuda, watched):
    q, k, v = (torch.randn(1, 2, tokens, 8) for tokens in (2, 5, 5))
    expected = F.scaled_dot_product_attention(q, k, v, torch.ones(2, 5, dtype=torch.bool).tril(3))
    with gpulab.observe() if watched else nullcontext():
        told = F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), causal_lower_right(2, 5))
    assert torch.allclose(told.cpu(), expected, atol=1e-6)
    with gpulab.cuda.use("off", quiet=True):
        assert type(causal_lower_right(2, 5)) is CausalBias
        with gpulab.observe(), gpulab.observe():
            assert type(causal_lower_right(2, 5)) is CausalBias
        assert type(causal_lower_right(2, 5)) is CausalBias
