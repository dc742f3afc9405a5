"""What of PyTorch is replaced in a rank's process, and why. All of it; it ends with the process.

PyTorch asks a CPU build for NCCL's group by these names; an ordinary script then runs as it is.
"""

import functools
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.distributed.tensor import DTensor

from gpulab.collectives.rank import functional, splitting
from gpulab.collectives.rank.group import BrokerGroup, GlooGroup
from gpulab.collectives.rank.posting import host_tensors_allowed
from gpulab.compat.dispatch import disable_current_modes
from gpulab.compat.distributed import (
    NCCL_AVAILABLE,
    NCCL_VERSION,
    NCCL_VERSION_SUFFIX,
    NOT_IN_RANKS,
    VERIFY_PARAMETERS,
)
from gpulab.compat.distributed_tensor import CONTEXT_PARALLEL, REBUILD_FROM_META
from gpulab.cuda.device import state
from gpulab.cuda.device.composed import FactoriesOnCard
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.errors import NotModelled, refusing

_aten = torch.ops.aten
_VERSION = (2, 29, 0)


def install() -> None:
    """``init_process_group("nccl")`` and ``("gloo")`` make our groups from now on."""
    _name_the_backends()
    functional.install()
    splitting.install()
    _buckets_on_the_card()
    _fakes_on_the_host()
    _where_distributed_tensors_are()
    _no_context_parallelism_on_the_card()
    _refuse_by_name()
    _one_thread()


def _name_the_backends() -> None:
    NCCL_AVAILABLE.set(True)
    c10d.default_pg_nccl_timeout = timedelta(minutes=10)
    for module in (c10d, dist):
        module.ProcessGroupNCCL = BrokerGroup
        module.ProcessGroupGloo = GlooGroup
    # c10d asks NCCL's version when it logs an error, and DDP's hooks when they are registered.
    NCCL_VERSION.set(lambda: _VERSION[0] << 32 | _VERSION[1] << 16 | _VERSION[2])
    NCCL_VERSION_SUFFIX.set(lambda: b"")


def _buckets_on_the_card() -> None:
    """DDP's Reducer is C++ and allocates buckets where it takes the parameters to be: on the host."""
    original = dist.Reducer
    factories = (_aten.empty.memory_format, _aten.empty_strided.default)

    class Reducer(original):
        def __init__(self, parameters, *rest) -> None:
            self._on_card = any(isinstance(parameter, CudaTensor) for parameter in parameters)
            with self._allocating():
                super().__init__(parameters, *rest)

        def _rebuild_buckets(self) -> bool:
            with self._allocating():
                return super()._rebuild_buckets()

        def _set_static_graph(self) -> None:
            with self._allocating():
                super()._set_static_graph()

        def _allocating(self):
            return FactoriesOnCard(factories) if self._on_card and state.is_on() else disable_current_modes()

    dist.Reducer = Reducer
    _check_shapes()


def _check_shapes() -> None:
    """DDP compares shapes in C++, which sends them from where it takes the parameters to be; a ghost has no such numbers."""
    original = VERIFY_PARAMETERS.value

    @functools.wraps(original)
    def verify(*args, **kwargs):
        if state.is_on() and state.device_on().ghost:
            return None
        with host_tensors_allowed():
            return original(*args, **kwargs)

    VERIFY_PARAMETERS.set(verify)


def _where_distributed_tensors_are() -> None:
    """A DTensor is where its part is; its C++ is told the host, and FSDP asks."""
    DTensor.device = property(lambda self: self._local_tensor.device)
    DTensor.is_cuda = property(lambda self: self._local_tensor.is_cuda)
    DTensor.is_cpu = property(lambda self: self._local_tensor.is_cpu)
    DTensor.is_meta = property(lambda self: self._local_tensor.device.type == "meta")
    DTensor.get_device = lambda self: self._local_tensor.get_device()


def _fakes_on_the_host() -> None:
    """DTensor works out shapes with fake tensors of the mesh's device; the card has none, and shapes are the same."""

    def rebuild(spec):
        meta = spec.tensor_meta
        if meta is None:
            raise AssertionError("DTensorSpec does not contain tensor_meta.")
        return torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="cpu")

    REBUILD_FROM_META.set(rebuild)


def _no_context_parallelism_on_the_card() -> None:
    """It shards the operators of CUDA's attention; the card computes with the host's, which DTensor cannot shard."""
    original = CONTEXT_PARALLEL.value

    @functools.wraps(original)
    def context_parallel(mesh, *args, **kwargs):
        if mesh.device_type == "cuda":
            raise NotModelled("torch.distributed.tensor.experimental.context_parallel")
        return original(mesh, *args, **kwargs)

    CONTEXT_PARALLEL.set(context_parallel)


def _refuse_by_name() -> None:
    """What would be sent past the broker, or asks NCCL or the driver for what no group here has."""
    for place, what in NOT_IN_RANKS.items():
        place.set(functools.wraps(place.value)(refusing(what)))


def _one_thread() -> None:
    """A forked process hangs in OpenMP when it takes a second thread and its parent had several."""
    torch.set_num_threads(1)

    def set_num_threads(count: int) -> None:
        if count != 1:
            warnings.warn(f"a rank computes with one thread: set_num_threads({count}) is left out", stacklevel=2)

    torch.set_num_threads = set_num_threads
