"""Random numbers of the device: a generator of its own, as a card has."""

import weakref
from contextlib import contextmanager

import torch

from gpulab.compat.cuda import waiting_seeds
from gpulab.compat.dispatch import DisableTorchDispatch
from gpulab.cuda.device import state
from gpulab.cuda.errors import NotModelled

_BASE = torch.Generator
# PyTorch's default_rng_seed_val, which a card's generators start from.
_DEFAULT_SEED = 67280421310721


# By the address of their C++: on its way through PyTorch a generator loses its Python class.
_ON_CARD: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class CudaGenerator(_BASE):
    """A generator that says it lives on the card.

    Its numbers are reproducible, but neither the host's for that seed nor a real card's.
    """

    def __new__(cls, device=None):
        return super().__new__(cls)

    def __init__(self, device=None) -> None:
        self.manual_seed(_DEFAULT_SEED)
        _ON_CARD[self._cdata] = self

    device = property(lambda self: state.CUDA)

    def manual_seed(self, seed: int):
        self._seed = int(seed)
        super().manual_seed((int(seed) * 0x9E37_79B9 + 0xC0DA) % 2**63)
        return self

    def get_state(self) -> torch.Tensor:
        """uint8, on the host: the numbers' state, then the seed."""
        guard = DisableTorchDispatch()
        try:
            seed = torch.tensor([self._seed % 2**63], device="cpu").view(torch.uint8)
            return torch.cat([super().get_state(), seed])
        finally:
            del guard

    def set_state(self, state: torch.Tensor):
        if state.numel() != _state_bytes():
            raise RuntimeError("RNG state is wrong size")
        guard = DisableTorchDispatch()
        try:
            super().set_state(state[:-_SEED_BYTES])
            self._seed = int(state[-_SEED_BYTES:].clone().view(torch.int64))
        finally:
            del guard
        return self

    def clone_state(self) -> "CudaGenerator":
        return _made_from(self.get_state())

    def __reduce__(self):
        return _made_from, (self.get_state(),)

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def _missing(self, *args):
        raise NotModelled("the offset of a generator, and the state that CUDA graphs share")

    get_offset = set_offset = graphsafe_get_state = graphsafe_set_state = _missing

    def initial_seed(self) -> int:
        return self._seed

    def seed(self) -> int:
        self.manual_seed(_BASE().seed() % 2**63)
        return self._seed


_SEED_BYTES = 8


def _state_bytes() -> int:
    return _BASE().get_state().numel() + _SEED_BYTES


def _made_from(state: torch.Tensor) -> CudaGenerator:
    return CudaGenerator().set_state(state)


def check_device(generator, wanted: str) -> None:
    """Raise RuntimeError, as PyTorch does, for a generator (or None) of the other device type."""
    if generator is None:
        return
    found = "cuda" if generator._cdata in _ON_CARD else "cpu"
    if found != wanted:
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")


def default_generator() -> CudaGenerator:
    """The card's own; a ``torch.manual_seed`` from before the card was there counts."""
    generator = CudaGenerator()
    if any(waiting_seeds()):
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
def drawing(device, rule, kwargs):
    """Inside the block the operation draws from the device's generator."""
    if rule.random == "argument":
        check_device(kwargs.get("generator"), "cuda")
        yield {**kwargs, "generator": kwargs.get("generator") or device.generator}
        return
    host = torch.random.default_generator
    before = host.get_state()
    host.set_state(_BASE.get_state(device.generator))
    try:
        yield kwargs
    finally:
        _BASE.set_state(device.generator, host.get_state())
        host.set_state(before)
