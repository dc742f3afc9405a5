"""Random numbers of the device: a generator of its own, as a card has."""

from contextlib import contextmanager

import torch

from gpulab.cuda.device import state

_BASE = torch.Generator
# PyTorch's default_rng_seed_val, which a card's generators start from.
_DEFAULT_SEED = 67280421310721


class CudaGenerator(_BASE):
    """A generator that says it lives on the card.

    Its numbers are reproducible, but neither the host's for that seed nor a real card's.
    """

    def __new__(cls, device=None):
        return super().__new__(cls)

    def __init__(self, device=None) -> None:
        self.manual_seed(_DEFAULT_SEED)

    device = property(lambda self: state.CUDA)

    def manual_seed(self, seed: int):
        self._seed = int(seed)
        super().manual_seed((int(seed) * 0x9E37_79B9 + 0xC0DA) % 2**63)
        return self

    def initial_seed(self) -> int:
        return self._seed

    def seed(self) -> int:
        self.manual_seed(_BASE().seed() % 2**63)
        return self._seed


def default_generator() -> CudaGenerator:
    """The card's own; a ``torch.manual_seed`` from before the card was there counts."""
    generator = CudaGenerator()
    if any(torch.cuda._lazy_seed_tracker.get_calls()):
        generator.manual_seed(torch.initial_seed())
    return generator


class _IsGenerator(type):
    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, _BASE)


class Generator(metaclass=_IsGenerator):
    """``torch.Generator`` while the virtual device is on."""

    def __new__(cls, device="cpu"):
        return CudaGenerator() if state.is_cuda(device) else _BASE(device)


@contextmanager
def drawing(device, plan, kwargs):
    """Inside the block the operation draws from the device's generator."""
    if plan.random == "argument":
        yield {**kwargs, "generator": kwargs.get("generator") or device.generator}
        return
    host = torch.random.default_generator
    before = host.get_state()
    host.set_state(device.generator.get_state())
    try:
        yield kwargs
    finally:
        device.generator.set_state(host.get_state())
        host.set_state(before)
