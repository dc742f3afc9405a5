"""What of PyTorch is replaced in a rank's process, and why. All of it; it ends with the process.

PyTorch asks a CPU build for NCCL's group by these names; an ordinary script then runs as it is.
"""

import functools
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
import torch.distributed.tensor._op_schema as schema
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import _disable_current_modes

from gpulab.collectives.rank import functional
from gpulab.collectives.rank.group import GlooGroup, SwitchboardGroup
from gpulab.collectives.rank.posting import host_tensors_allowed
from gpulab.cuda.device import state
from gpulab.cuda.device.composed import FactoriesOnCard
from gpulab.cuda.device.tensor import CudaTensor

_aten = torch.ops.aten
_NCCL_VERSION = (2, 29, 0)


def install() -> None:
    """``init_process_group("nccl")`` and ``("gloo")`` make our groups from now on."""
    _name_the_backends()
    functional.install()
    _buckets_on_the_card()
    _fakes_on_the_host()
    _where_distributed_tensors_are()
    _one_thread()


def _name_the_backends() -> None:
    c10d._NCCL_AVAILABLE = True
    c10d.default_pg_nccl_timeout = timedelta(minutes=10)
    for module in (c10d, dist):
        module.ProcessGroupNCCL = SwitchboardGroup
        module.ProcessGroupGloo = GlooGroup
    # c10d asks NCCL's version when it logs an error, and DDP's hooks when they are registered.
    torch._C._nccl_version = lambda: _NCCL_VERSION[0] << 32 | _NCCL_VERSION[1] << 16 | _NCCL_VERSION[2]
    torch._C._nccl_version_suffix = lambda: b""


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
            return FactoriesOnCard(factories) if self._on_card and state.is_on() else _disable_current_modes()

    dist.Reducer = Reducer
    _check_shapes()


def _check_shapes() -> None:
    """DDP compares shapes in C++, which sends them from where it takes the parameters to be; a ghost has no such numbers."""
    original = dist._verify_params_across_processes

    @functools.wraps(original)
    def verify(*args, **kwargs):
        if state.is_on() and state.device_on().ghost:
            return None
        with host_tensors_allowed():
            return original(*args, **kwargs)

    dist._verify_params_across_processes = verify


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

    schema._rebuild_tensor_from_dtensor_meta = rebuild


def _one_thread() -> None:
    """A forked process hangs in OpenMP when it takes a second thread and its parent had several."""
    torch.set_num_threads(1)

    def set_num_threads(count: int) -> None:
        if count != 1:
            warnings.warn(f"a rank computes with one thread: set_num_threads({count}) is left out", stacklevel=2)

    torch.set_num_threads = set_num_threads
