"""Random numbers of the device: a generator of its own, as a card has."""

import struct
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
    """A seed and an offset, as Philox has them, in what PyTorch's C++ takes for CUDA's: the host's kernels refuse it.

    Each operation draws numbers that seed and offset determine and moves the offset on. The numbers are neither the
    host's for that seed nor a real card's.
    """

    def __new__(cls, device=None):
        return super().__new__(cls)

    def __init__(self, device=None) -> None:
        draws_for_cuda(self)
        self._numbers = _BASE()
        self.manual_seed(_DEFAULT_SEED)
        _ON_CARD[self._cdata] = _ON_CARD[self._numbers._cdata] = self

    device = property(lambda self: state.CUDA)

    def manual_seed(self, seed: int):
        self._seed, self._offset = int(seed) % 2**64, 0
        return self

    def numbers(self) -> torch.Generator:
        """A generator of the host at the numbers of the operation that comes next."""
        return self._numbers.manual_seed(self.next_seed())

    def next_seed(self) -> int:
        """What a generator of the host is seeded with for the operation that comes next."""
        seed = _mixed(_mixed(self._seed) + self._offset)
        self._offset += _OFFSET_OF_AN_OPERATION
        return seed

    def get_state(self) -> torch.Tensor:
        """Seed and offset, 16 bytes: uint8, on the host."""
        return self._bytes(struct.pack(_STATE, self._seed, self._offset))

    @staticmethod
    def _bytes(values: bytes) -> torch.Tensor:
        guard = DisableTorchDispatch()
        try:
            return torch.tensor(list(values), dtype=torch.uint8, device="cpu")
        finally:
            del guard

    def set_state(self, state: torch.Tensor):
        if state.numel() != struct.calcsize(_STATE):
            raise RuntimeError("RNG state is wrong size")
        guard = DisableTorchDispatch()
        try:
            self._seed, self._offset = struct.unpack(_STATE, bytes(state.tolist()))
        finally:
            del guard
        return self

    def get_offset(self) -> int:
        return self._offset

    def set_offset(self, offset: int):
        """Raises RuntimeError, as CUDA does, for an offset that is no multiple of 4."""
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        self._offset = int(offset)
        return self

    def clone_state(self) -> "CudaGenerator":
        return _made_from(self.get_state())

    def __reduce__(self):
        return _made_from, (self.get_state(),)

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def _missing(self, *args):
        raise NotModelled("the state of a generator that CUDA graphs share")

    graphsafe_get_state = graphsafe_set_state = _missing

    def initial_seed(self) -> int:
        return self._seed

    def seed(self) -> int:
        self.manual_seed(_BASE().seed())
        return self._seed


_STATE = "<QQ"
_OFFSET_OF_AN_OPERATION = 4
"""By so much a kernel moves a card's offset that draws four numbers a thread or fewer."""


def _mixed(word: int) -> int:
    """64 bits of which each depends on all of ``word``: the host's generator looks at 32 of them."""
    word = (word + 0x9E37_79B9_7F4A_7C15) % 2**64
    word = (word ^ word >> 30) * 0xBF58_476D_1CE4_E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D0_49BB_1331_11EB % 2**64
    return word ^ word >> 31


def _made_from(state: torch.Tensor) -> CudaGenerator:
    return CudaGenerator().set_state(state)


def numbers_of(generator) -> torch.Generator:
    """What draws for ``generator`` (None: the card's own). Raises RuntimeError, as PyTorch does, for one of the host's."""
    owner = state.device_on().generator if generator is None else _ON_CARD.get(generator._cdata)
    if owner is None:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    return owner.numbers()


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
    host = torch.random.default_generator
    before = host.get_state()
    host.manual_seed(device.generator.next_seed())
    try:
        yield args, kwargs
    finally:
        host.set_state(before)


def _with_numbers(device, args, kwargs) -> tuple:
    """Of some operations (``poisson``) the generator is the last of ``args``. On a ghost nothing draws."""
    given = [value for value in args if isinstance(value, _BASE)]
    numbers = numbers_of(given[0] if given else kwargs.get("generator"))
    args = args[: len(args) - len(given)]
    return args, {**kwargs, "generator": None if device.ghost else numbers}
