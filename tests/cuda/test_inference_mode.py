"""Under ``torch.inference_mode`` the card does, and an observation shows, what they do under ``torch.no_grad``."""

import pytest
import torch
from torch.nn import functional as F

import gpulab
import gpulab.cuda


def forward(device):
    layer, x = torch.nn.Linear(8, 8, device=device), torch.ones(4, 8, device=device)
    F.gelu(layer(x)).sum()


def copies(device):
    x = torch.ones(3, 128, device=device).t()
    for made in (x.clone(), x.to(torch.float64), x.contiguous(), x.reshape(-1), torch.cat([x, x])):
        made.add_(1)


def travel(device):
    x = torch.arange(6.0).to(device, non_blocking=True)
    x.to("cpu", torch.float64)
    torch.ones(6).pin_memory().to(device).cpu()


def values(device):
    x = torch.arange(6.0, device=device) - 2
    x[x > 0] = 0.0
    x[0].item()
    x.nonzero()


def attention(device):
    q = torch.ones(1, 2, 4, 8, device=device)
    F.scaled_dot_product_attention(q, q, q)


def what_was_seen(program, device, mode) -> dict:
    torch.manual_seed(0)
    with mode(), gpulab.observe() as seen:
        program(device)
    return {
        "ops": [(op.op, op.new_bytes) for op in seen.ops],
        "copies": [(copy.kind, copy.bytes, copy.pinned) for copy in seen.copies],
        "kernels": [(kernel.name, kernel.flops, kernel.bytes_read) for kernel in seen.kernels],
        "waits": [wait.reason for wait in seen.waits],
        "peak": seen.peak_bytes,
    }


@pytest.mark.parametrize("program", [forward, copies, travel, values, attention])
def test_it_is_seen_as_it_is_under_no_grad(cuda, program):
    without = what_was_seen(program, "cuda", torch.no_grad)
    assert without["ops"] and what_was_seen(program, "cuda", torch.inference_mode) == without


@pytest.mark.parametrize("program", [forward, copies, attention])
def test_on_the_host_too(program):
    without = what_was_seen(program, "cpu", torch.no_grad)
    assert without["ops"] and what_was_seen(program, "cpu", torch.inference_mode) == without


def test_a_module_moves(cuda):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    with torch.inference_mode(), gpulab.observe() as seen:
        model.to("cuda")
    assert all(tensor.is_cuda for tensor in (*model.parameters(), *model.buffers()))
    assert [copy.kind for copy in seen.copies] == ["HtoD"] * 7


def test_a_cards_first_operation_may_be_in_inference_mode():
    with torch.inference_mode(), gpulab.cuda.use("virtual", quiet=True), gpulab.observe() as seen:
        made = torch.ones(3, device="cuda") * 2
    assert made.is_inference() and len(seen.kernels) == 2


def test_what_it_makes_is_no_part_of_a_graph(cuda):
    with torch.inference_mode():
        made = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        torch.nn.Linear(3, 3, device="cuda")(made)
