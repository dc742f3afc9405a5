"""``torch.cuda`` and the C++ below it: what a virtual card answers for, and a real one is asked."""

import torch
import torch.cuda._gpu_trace

from gpulab.compat.places import Place

sleep = torch.cuda._sleep
"""Keep the current stream busy for so many cycles of the multiprocessors' clock."""
jit_function = torch.cuda.jiterator._create_jit_fn
"""A kernel compiled from C++, as torch.cuda.jiterator makes it."""
gpu_trace = torch.cuda._gpu_trace
"""Lists of callbacks by kind: ``EventRecordCallbacks`` and so on."""
SANITIZER = "torch.cuda._sanitizer"
"""The module; its import switches its handler and the trace hooks on, for good."""
TRACE_FLAG = "_ZN3c104impl8GPUTrace9haveStateE"
"""The flag of ``libc10.so`` that the trace hooks go by: ``c10::impl::GPUTrace::haveState``."""
ACTIVATE_GPU_TRACE = Place(torch._C, "_activate_gpu_trace")

ATTRIBUTES_OF_C = Place(torch._C, "__getattr__")
"""A function of the module's, called for names that it has not."""
HAS_CUDA = Place(torch._C, "_has_cuda")
GET_ACCELERATOR = Place(torch._C, "_get_accelerator")
SET_ALLOCATOR_SETTINGS = Place(torch._C, "_accelerator_setAllocatorSettings")
HOST_EMPTY_CACHE = Place(torch._C, "_host_emptyCache")
SCATTER = Place(torch._C, "_scatter")
BETWEEN_CARDS = ("_broadcast", "_broadcast_coalesced", "_broadcast_out", "_gather", "_gather_out", "_scatter_out")
"""Other names of ``torch._C`` that a build for CUDA has, and those that begin with one of ``PREFIXES``."""
PREFIXES = ("_cuda_", "_Cuda", "_CUDA", "_nccl_", "_cudart")

INITIALIZED = Place(torch.cuda, "_initialized")
CACHED_DEVICE_COUNT = Place(torch.cuda, "_cached_device_count")
GET_DEVICE_PROPERTIES = Place(torch.cuda, "_get_device_properties")
EXCHANGE_DEVICE = Place(torch.cuda, "_exchange_device")
MAYBE_EXCHANGE_DEVICE = Place(torch.cuda, "_maybe_exchange_device")
CUDART = Place(torch.cuda, "_cudart")
IS_IN_BAD_FORK = Place(torch.cuda, "_is_in_bad_fork")
NVTX = Place(torch.cuda.nvtx, "_nvtx")


def binding(name: str) -> Place:
    """``getDevice``: the function of ``torch._C`` that ``torch.cuda``'s Python calls for it."""
    return Place(torch._C, f"_cuda_{name}")


def waiting_seeds() -> tuple:
    """Calls of ``torch.cuda.manual_seed`` and its kin that wait for the first use of a card."""
    return torch.cuda._lazy_seed_tracker.get_calls()
