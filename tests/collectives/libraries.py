"""A small model, a batch of each rank, and the gradients that one process finds: what PyTorch's libraries are held against."""

import warnings
from collections import Counter

import torch

WIDTH = 32


def net(depth=3, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(*[m for _ in range(depth) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())])


def batch(rank):
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(100 + rank))


def gradients_of_one_process(world):
    """Of the mean over all ranks' batches."""
    model = net()
    sum(model(batch(rank)).square().mean() for rank in range(world)).div(world).backward()
    return [p.grad for p in model.parameters()]


def same(got, expected):
    return all(torch.allclose(g, d, atol=1e-6) for g, d in zip(got, expected, strict=True))


def collectives(run) -> Counter:
    return Counter(entry.operation for entry in run.journal)


def quiet():
    warnings.simplefilter("ignore")
