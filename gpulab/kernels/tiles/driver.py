"""``triton.runtime.driver`` and ``triton.testing.do_bench`` where no GPU is: the virtual card's.

Triton's tutorials begin with them. With a GPU, and no virtual card on, Triton's own answer.
"""

import torch
import triton
import triton.testing

from gpulab.cards.multiprocessors import multiprocessor
from gpulab.compat.triton import GPUTarget, summarize_statistics
from gpulab.compat.triton import driver as real
from gpulab.cuda.device import cost, state
from gpulab.cuda.errors import NotModelled
from gpulab.observe.launches import WARP

_NO_CARD = (
    "there is no GPU here and no virtual card is on: gpulab.cuda.use('virtual:H100') switches one on. "
    "Kernels also run on CPU tensors: DEVICE = torch.device('cpu')"
)
_TURNS = 5
_tritons_do_bench = triton.testing.do_bench
_CLEARED_BYTES = 256 * 2**20


class _Properties(dict):
    """What the virtual card's table has; raises NotModelled for the rest."""

    def __missing__(self, name: str):
        raise NotModelled(f"the device property {name}")


class _Utilities:
    @staticmethod
    def get_device_properties(device: int) -> dict:
        """Multiprocessors, and their limits, of card 0."""
        card = _card(device)
        sm = multiprocessor(card.capability)
        return _Properties(
            multiprocessor_count=card.multiprocessors,
            max_shared_mem=sm.max_shared_bytes_per_block,
            max_num_regs=sm.registers,
            warpSize=WARP,
        )


class _Virtual:
    """Triton's driver of the virtual card."""

    utils = _Utilities()

    def get_active_torch_device(self) -> torch.device:
        return state.CUDA

    def get_current_target(self) -> GPUTarget:
        major, minor = _card(0).capability
        return GPUTarget("cuda", 10 * major + minor, WARP)

    def get_device_interface(self):
        return torch.cuda

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        _card(device)

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return _card(device).capability

    def get_benchmarker(self):
        return do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        return None

    def clear_cache(self, cache) -> None:
        """A kernel as long as writing 256 MiB, as Triton's: meanwhile the host runs ahead."""
        machine = state.device_on().machine
        machine.kernel(
            "clear_cache",
            cost.duration_us(machine.card, 0, _CLEARED_BYTES, machine.card.flops_per_s["fp32"]),
            0,
            0,
            [],
            [],
            0,
            0,
        )

    def __getattr__(self, name: str):
        raise NotModelled(f"triton.runtime.driver.active.{name}")


class _Nobody:
    def __getattr__(self, name: str):
        raise RuntimeError(f"triton.runtime.driver.active.{name}: {_NO_CARD}")


def _card(device: int):
    if device not in (0, None):
        raise RuntimeError(f"there is one card, with the number 0, and not {device}")
    return state.device_on().card


class _Active:
    """Whoever drives ``device="cuda"`` at the moment."""

    def __getattr__(self, name: str):
        return getattr(_driver(), name)


def _driver():
    if state.is_on():
        return _Virtual()
    return real.default if torch.cuda.is_available() else _Nobody()


ACTIVE = _Active()


class Driver:
    """``triton.runtime.driver``."""

    active = ACTIVE

    def __getattr__(self, name: str):
        return getattr(real, name)


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Milliseconds that ``fn`` takes on the card, as ``triton.testing.do_bench``.

    On the virtual card its model's, of five runs: every run takes as long as the last. Raises
    RuntimeError where there is neither a GPU nor a virtual card.
    """
    if not state.is_on():
        if not torch.cuda.is_available():
            raise RuntimeError(f"do_bench times kernels on a card; {_NO_CARD}")
        return _tritons_do_bench(fn, warmup, rep, grad_to_none, quantiles, return_mode)
    times = [_timed(fn, grad_to_none or ()) for _ in range(_TURNS)]
    return summarize_statistics(times, quantiles, return_mode)


def _timed(fn, gradients) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for tensor in gradients:
        tensor.grad = None
    ACTIVE.clear_cache(None)
    start.record()
    fn()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


if state.is_on() or not torch.cuda.is_available():
    # For `from triton.runtime import driver` and `import triton.testing`: Triton itself finds no driver at all.
    real.set_active(ACTIVE)
    triton.testing.do_bench = do_bench
