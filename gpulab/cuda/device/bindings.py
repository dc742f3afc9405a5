"""The ``torch._C._cuda_*`` functions that PyTorch's own Python calls.

With these in place ``torch.cuda``'s Python runs as it is: what it computes, checks and says
stays PyTorch's. What is missing here raises NotModelled.
"""

import os
import warnings

import torch

from gpulab.cards.multiprocessors import THREADS_PER_WARP, multiprocessor
from gpulab.compat import cuda
from gpulab.cuda.device import state
from gpulab.cuda.device.gpu_trace import handle
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.snapshot import snapshot
from gpulab.cuda.errors import NotModelled

_SYNC_WARNING = "called a synchronizing CUDA operation"


class _Properties:
    """What ``torch.cuda.get_device_properties`` returns: the fields that the card's table has."""

    def __init__(self, card) -> None:
        self.name = f"{card.name} (virtual)"
        self.major, self.minor = card.capability
        self.total_memory = card.memory_bytes
        self.multi_processor_count = card.multiprocessors
        self.warp_size, self.max_threads_per_block = THREADS_PER_WARP, 1024
        self.is_integrated = self.is_multi_gpu_board = 0
        of_one = multiprocessor(card.capability)
        self.max_threads_per_multi_processor, self.regs_per_multiprocessor = of_one.max_threads, of_one.registers
        self.shared_memory_per_multiprocessor = of_one.shared_bytes
        # What a kernel has without asking for more, on every capability of the table.
        self.shared_memory_per_block, self.shared_memory_per_block_optin = 48 << 10, of_one.max_shared_bytes_per_block

    def __getattr__(self, name: str):
        raise NotModelled(f"the device property {name}")

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count})"
        )

    def _key(self) -> tuple:
        return self.name, self.major, self.minor, self.total_memory

    def __eq__(self, other) -> bool:
        return isinstance(other, _Properties) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class _CudaError:
    """Its codes: nothing fails here."""

    success = 0


class _Cudart:
    """The little of the CUDA runtime library that PyTorch's Python reaches for.

    No profiler of NVIDIA's listens: starting and stopping one succeeds and does nothing.
    """

    cudaError = _CudaError

    def __init__(self, device) -> None:
        self._device = device

    def cudaProfilerStart(self) -> int:
        return _CudaError.success

    cudaProfilerStop = cudaProfilerStart

    def cudaMemGetInfo(self, index: int) -> tuple[int, int]:
        _exchange_device(index)
        allocator = self._device.machine.allocator
        return allocator.capacity - allocator.reserved, allocator.capacity

    def __getattr__(self, name: str):
        raise NotModelled(f"cudart.{name}")


def install(patches: Patches, device) -> None:
    """Give ``torch._C`` its CUDA half, and tell ``torch.cuda`` that it is initialised."""
    functions = {**_basics(device), **_waiting(device), **_streams(device), **_memory(device)}
    for name, function in functions.items():
        patches.set(*cuda.binding(name), function)
    patches.set(*cuda.ATTRIBUTES_OF_C, _missing)
    patches.set(*cuda.HOST_EMPTY_CACHE, device.pinned.empty_cache)
    patches.set(*cuda.SET_ALLOCATOR_SETTINGS, _set_allocator_settings)
    patches.set(*cuda.HAS_CUDA, True)
    patches.set(*cuda.GET_ACCELERATOR, lambda check=None: torch.device("cuda"))
    patches.set(*cuda.SCATTER, _scatter)
    patches.set(torch, "get_device", lambda tensor: tensor.get_device())
    cudart = _Cudart(device)
    for place, value in _initialised(device, cudart).items():
        patches.set(*place, value)
    for name, value in _public(device, cudart).items():
        patches.set(torch.cuda, name, value)


_SETTINGS = (
    "max_split_size_mb", "max_non_split_rounding_mb", "garbage_collection_threshold", "roundup_power2_divisions",
    "expandable_segments", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "pinned_num_register_threads",
    "pinned_use_background_threads", "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse",
    "per_process_memory_fraction", "throw_on_cudamalloc_oom", "large_segment_size_mb", "use_rocm_host_register",
)  # fmt: skip
_AS_MODELLED = ("", "backend:native", "expandable_segments:False")


_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def check_environment() -> None:
    """Raise for what the environment asks of the allocator, as for what a program asks while it runs."""
    for name in _VARIABLES:
        _set_allocator_settings(os.environ.get(name, ""), f", in the environment's {name} (take it out for this card),")


def _set_allocator_settings(settings: str, where: str = "") -> None:
    """Accept what is as the model has it. Raises NotModelled for what a card would do otherwise, ValueError for an unknown key.

    ``where``: what the refusal says after the setting.
    """
    for setting in settings.replace(" ", "").split(","):
        name = setting.partition(":")[0]
        if setting in _AS_MODELLED:
            continue
        if name not in (*_SETTINGS, "backend"):
            raise ValueError(f"Unrecognized key '{name}' in Accelerator allocator config.")
        raise NotModelled(f"the allocator setting {setting}{where}")


def _initialised(device, cudart) -> dict:
    return {
        cuda.INITIALIZED: True,
        cuda.CACHED_DEVICE_COUNT: state.COUNT,
        cuda.GET_DEVICE_PROPERTIES: lambda index: _Properties(device.card),
        cuda.EXCHANGE_DEVICE: _exchange_device,
        cuda.MAYBE_EXCHANGE_DEVICE: _maybe_exchange_device,
        cuda.CUDART: cudart,
        cuda.IS_IN_BAD_FORK: lambda: False,
    }


def _public(device, cudart) -> dict:
    return {
        "default_generators": (device.generator,) * state.COUNT,
        "cudart": lambda: cudart,
        "is_available": lambda: True,
        "device_count": lambda: state.COUNT,
    }


def _exchange_device(index: int) -> int:
    """The card that was current; a negative index changes nothing. Raises RuntimeError for another card."""
    if index >= 0:
        state.is_cuda(index)
    return state.CUDA.index


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


def _for_the_card(function, refusal: str):
    """``function(index)``, which says ``refusal`` of a card that is not there."""

    def checked(index):
        if index != state.CUDA.index:
            raise RuntimeError(refusal.format(index))
        return function()

    return checked


_NO_STATS = "Invalid device argument {}: did you call init?"
_NO_STREAM = "Device index value {} is out of index range [0, 1)"


def _scatter(tensor, devices, chunk_sizes, dim, streams=None) -> tuple:
    """To the one card there is, as DataParallel asks."""
    if len(devices) != 1:
        raise NotModelled("torch.cuda.comm.scatter to several cards")
    return (tensor.cuda(devices[0]),)


def _missing(name: str):
    if name.startswith(cuda.PREFIXES) or name in cuda.BETWEEN_CARDS:
        raise NotModelled(f"torch._C.{name}")
    raise AttributeError(f"module 'torch._C' has no attribute '{name}'")


def _basics(device) -> dict:
    return {
        "getDeviceCount": lambda: state.COUNT,
        "getDevice": lambda: state.CUDA.index,
        "setDevice": lambda index: state.is_cuda(index) and None,
        "exchangeDevice": _exchange_device,
        "maybeExchangeDevice": _maybe_exchange_device,
        "init": lambda: None,
        "isInBadFork": lambda: False,
        "getArchFlags": lambda: "sm_{}{}".format(*device.card.capability),
        "canDeviceAccessPeer": lambda a, b: False,
        "ipc_collect": lambda: None,
        "getCompiledVersion": lambda: 0,
    }


def _waiting(device) -> dict:
    machine = device.machine

    def set_sync_debug_mode(mode: int) -> None:
        if mode not in (0, 1, 2):
            raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
        device.sync_debug_mode = mode
        machine.on_unsafe_wait = None if mode == 0 else lambda: _object_to_wait(device)

    def sleep(cycles: int) -> None:
        # As on a card: a kernel that spins, at the multiprocessors' clock.
        machine.kernel("spin_kernel", cycles / device.card.clock_hz * 1e6, 1, 0, [], [], 0, 0)

    return {
        "synchronize": machine.wait_device,
        "set_sync_debug_mode": set_sync_debug_mode,
        "get_sync_debug_mode": lambda: device.sync_debug_mode,
        "isCurrentStreamCapturing": lambda: device.capture is not None,
        "sleep": sleep,
    }


def _object_to_wait(device) -> None:
    if device.sync_debug_mode == 1:
        warnings.warn(_SYNC_WARNING, stacklevel=2)
    else:
        raise RuntimeError(_SYNC_WARNING)


def _streams(device) -> dict:
    machine = device.machine

    def set_stream(stream_id: int, device_index: int, device_type: int) -> None:
        if stream_id not in machine.queues:
            raise RuntimeError("this stream belongs to a card that is switched off: make a new one")
        machine.current = machine.queues[stream_id]

    return {
        "getCurrentStream": _for_the_card(lambda: (machine.current.number, state.CUDA.index, 1), _NO_STREAM),
        "getDefaultStream": _for_the_card(lambda: (0, state.CUDA.index, 1), _NO_STREAM),
        "setStream": set_stream,
        "getCurrentRawStream": lambda index: handle(machine.current.number),
    }


def _memory(device) -> dict:
    allocator, history = device.machine.allocator, device.history

    def set_fraction(fraction: float, index: int) -> None:
        _exchange_device(index)
        allocator.fraction = fraction

    return {
        "memoryStats": _for_the_card(allocator.stats.as_nested_dict, _NO_STATS),
        "resetPeakMemoryStats": _for_the_card(allocator.stats.reset_peaks, _NO_STATS),
        "resetAccumulatedMemoryStats": _for_the_card(allocator.stats.reset_accumulated, _NO_STATS),
        "emptyCache": allocator.empty_cache,
        "setMemoryFraction": set_fraction,
        "getMemoryFraction": _for_the_card(lambda: allocator.fraction, _NO_STATS),
        "getAllocatorBackend": lambda: "native",
        # A flag may follow the pool: whether to give traces, too.
        "memorySnapshot": lambda pool: snapshot(allocator, history, pool and tuple(pool[:2])),
        "record_memory_history": history.record,
        "cudaCachingAllocator_is_enabled": lambda: True,
    }
