"""Random numbers of the device: a generator of its own, as a card has."""

import weakref
from contextlib import contextmanager

import torch

from gpulab.compat.cuda import waiting_seeds
from gpulab.compat.dispatch import DisableTorchDispatch
from gpulab.compat.generators import draws_for_cuda
from gpulab.cuda.device import state
from gpulab.cuda.errors import NotModelled

_BASE = torch.Generator
# PyTorch's default_rng_seed_val, which a card's generators start from.
_DEFAULT_SEED = 67280421310721


# By the address of their C++: on its way through PyTorch a generator loses its Python class.
_ON_CARD: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class CudaGenerator(_BASE):
    """A generator that PyTorch's C++ takes for CUDA's, so that the host's kernels refuse it; its ``numbers`` are the host's.

    They are reproducible, but neither the host's for that seed nor a real card's.
    """

    def __new__(cls, device=None):
        return super().__new__(cls)

    def __init__(self, device=None) -> None:
        draws_for_cuda(self)
        self.numbers = _BASE()
        self.manual_seed(_DEFAULT_SEED)
        _ON_CARD[self._cdata] = self

    device = property(lambda self: state.CUDA)

    def manual_seed(self, seed: int):
        self._seed = int(seed)
        self.numbers.manual_seed((int(seed) * 0x9E37_79B9 + 0xC0DA) % 2**63)
        return self

    def get_state(self) -> torch.Tensor:
        """uint8, on the host: the numbers' state, then the seed."""
        guard = DisableTorchDispatch()
        try:
            seed = torch.tensor([self._seed % 2**63], device="cpu").view(torch.uint8)
            return torch.cat([self.numbers.get_state(), seed])
        finally:
            del guard

    def set_state(self, state: torch.Tensor):
        if state.numel() != _state_bytes():
            raise RuntimeError("RNG state is wrong size")
        guard = DisableTorchDispatch()
        try:
            self.numbers.set_state(state[:-_SEED_BYTES])
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


def numbers_of(generator) -> torch.Generator:
    """What draws for ``generator`` (None: the card's own). Raises RuntimeError, as PyTorch does, for one of the host's."""
    if generator is None:
        return state.device_on().generator.numbers
    if generator._cdata not in _ON_CARD:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    return _ON_CARD[generator._cdata].numbers


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
def drawing(device, rule, args, kwargs):
    """Inside the block the operation, with the arguments that this gives, draws from the device's generator."""
    if rule.random == "argument":
        yield _with_numbers(device, args, kwargs)
        return
    host, numbers = torch.random.default_generator, device.generator.numbers
    before = host.get_state()
    host.set_state(numbers.get_state())
    try:
        yield args, kwargs
    finally:
        numbers.set_state(host.get_state())
        host.set_state(before)


def _with_numbers(device, args, kwargs) -> tuple:
    """Of some operations (``poisson``) the generator is the last of ``args``. On a ghost nothing draws."""
    given = [value for value in args if isinstance(value, _BASE)]
    numbers = numbers_of(given[0] if given else kwargs.get("generator"))
    args = args[: len(args) - len(given)]
    return args, {**kwargs, "generator": None if device.ghost else numbers}
