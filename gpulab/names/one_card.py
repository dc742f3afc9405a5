"""``torch.cuda`` and ``torch.accelerator``: a call for each public name."""

from contextlib import AbstractContextManager

import torch
from torch import accelerator, cuda

from gpulab.compat.cuda import jit_function
from gpulab.names.calls import Names


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, device="cuda")


def _entered(manager: AbstractContextManager) -> None:
    with manager:
        pass


def _captured() -> None:
    x, graph = _ones(2), cuda.CUDAGraph()
    with cuda.graph(graph):
        x.add_(1)
    graph.replay()


def _jitted() -> torch.Tensor:
    double = jit_function("template <typename T> T twice(T x) { return x + x; }")
    return double(_ones(2))


_DTYPES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
_ALIKE = (
    "current_blas_handle", "current_device", "current_solver_handle", "current_stream", "default_stream", "device_count",
    "device_memory_used", "empty_cache", "get_allocator_backend", "get_arch_list", "get_device_capability",
    "get_device_name", "get_device_properties", "get_gencode_flags", "get_per_process_memory_fraction", "get_rng_state",
    "get_rng_state_all", "get_sync_debug_mode", "graph_pool_handle", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "init", "initial_seed", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized", "is_tf32_supported", "list_gpu_processes", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "memory_usage", "temperature",
    "power_draw", "clock_rate", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats", "reset_peak_memory_stats",
    "seed", "seed_all", "synchronize", "utilization", "CUDAGraph", "Event", "Stream", "MemPool",
)  # fmt: skip
"""Called with nothing."""

CUDA = Names(
    "torch.cuda",
    {
        **{name: lambda name=name: getattr(cuda, name)() for name in _ALIKE},
        **{f"{kind}Tensor": lambda kind=kind: getattr(cuda, f"{kind}Tensor")(2) for kind in _DTYPES},
        **{f"{kind}Storage": lambda kind=kind: getattr(cuda, f"{kind}Storage")(2) for kind in _DTYPES},
        "ComplexDoubleStorage": lambda: cuda.ComplexDoubleStorage(2),
        "ComplexFloatStorage": lambda: cuda.ComplexFloatStorage(2),
        "CUDAPluggableAllocator": lambda: cuda.CUDAPluggableAllocator("alloc.so", "malloc", "free"),
        "ExternalStream": lambda: cuda.ExternalStream(1),
        "GreenContext": lambda: cuda.GreenContext.create(8, 0),
        "StreamContext": lambda: _entered(cuda.StreamContext(cuda.Stream())),
        "caching_allocator_alloc": lambda: cuda.caching_allocator_alloc(512),
        "caching_allocator_delete": lambda: cuda.caching_allocator_delete(0),
        "caching_allocator_disabled": lambda: _entered(cuda.caching_allocator_disabled()),
        "caching_allocator_enable": lambda: cuda.caching_allocator_enable(True),
        "can_device_access_peer": lambda: cuda.can_device_access_peer(0, 0),
        "change_current_allocator": lambda: cuda.change_current_allocator(None),
        "check_error": lambda: cuda.check_error(0),
        "cudart": lambda: cuda.cudart().cudaProfilerStart(),
        "default_generators": lambda: cuda.default_generators[0].initial_seed(),
        "device": lambda: _entered(cuda.device(0)),
        "device_of": lambda: _entered(cuda.device_of(_ones(1))),
        "get_stream_from_external": lambda: cuda.get_stream_from_external(1),
        "graph": _captured,
        "jiterator": _jitted,
        "make_graphed_callables": lambda: cuda.make_graphed_callables(torch.nn.Linear(2, 2).cuda(), (_ones(2, 2),)),
        "manual_seed": lambda: cuda.manual_seed(1),
        "manual_seed_all": lambda: cuda.manual_seed_all(1),
        "memory": lambda: (cuda.memory._record_memory_history(), cuda.memory._record_memory_history(enabled=None)),
        "nccl": lambda: cuda.nccl.version(),
        "nvtx": lambda: _entered(cuda.nvtx.range("a range")),
        "profiler": lambda: _entered(cuda.profiler.profile()),
        "set_device": lambda: cuda.set_device(0),
        "set_per_process_memory_fraction": lambda: cuda.set_per_process_memory_fraction(1.0),
        "set_rng_state": lambda: cuda.set_rng_state(cuda.get_rng_state()),
        "set_rng_state_all": lambda: cuda.set_rng_state_all(cuda.get_rng_state_all()),
        "set_stream": lambda: cuda.set_stream(cuda.current_stream()),
        "set_sync_debug_mode": lambda: cuda.set_sync_debug_mode("default"),
        "stream": lambda: _entered(cuda.stream(cuda.Stream())),
        "tunable": lambda: cuda.tunable.is_enabled(),
        "use_mem_pool": lambda: _entered(cuda.use_mem_pool(None)),
    },
    {
        "errors and codes": ("CudaError", "DeferredCudaCallError", "cudaStatus"),
        "modules whose functions stand above or in other chapters": ("amp", "graphs", "random", "sparse", "streams"),
        "constants": ("has_half", "has_magma"),
    },
)

ACCELERATOR = Names(
    "torch.accelerator",
    {
        **{
            name: lambda name=name: getattr(accelerator, name)()
            for name in accelerator.__all__
            if name not in ("device_index", "set_device_idx", "set_device_index", "set_stream")
        },
        "device_index": lambda: _entered(accelerator.device_index(0)),
        "set_device_idx": lambda: accelerator.set_device_idx(0),
        "set_device_index": lambda: accelerator.set_device_index(0),
        "set_stream": lambda: accelerator.set_stream(accelerator.current_stream()),
    },
    {},
)
