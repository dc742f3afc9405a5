"""Functional collectives (``torch.distributed._functional_collectives``) on the virtual device.

They are operations that return what they will have written. PyTorch wraps that in a tensor which waits at its first
use; it would claim CUDA's key, which this build has not. Here the card knows which of its storages are still on their
way, and the first operation that uses one waits.
"""

import torch
import torch.distributed as dist

from gpulab.collectives.rank.work import Several, Work
from gpulab.compat.distributed import resolve_process_group
from gpulab.cuda.device import dispatch, state
from gpulab.cuda.errors import NotModelled

Tensor = torch.Tensor


def install() -> None:
    """The card's operations of that namespace are these."""
    dispatch.register_handler("_c10d_functional", _run)


def _run(op, args, kwargs):
    name = op._schema.name.partition("::")[2]
    if name == "wait_tensor":
        state.device_on().use([args[0]])
        return args[0]
    if name == "_wrap_tensor_autograd":
        return args[0]
    kind, in_place, coalesced = _kind(name)
    if kind not in _KINDS:
        raise NotModelled(f"torch.ops._c10d_functional.{name} of a device tensor")
    given = dict(zip((argument.name for argument in op._schema.arguments), args)) | kwargs
    inputs = list(args[0]) if coalesced else [args[0]]
    outputs, work = _KINDS[kind](_group(given["group_name"]), inputs, inputs if in_place else None, given)
    if given.get("out") is not None:
        raise NotModelled(f"torch.ops._c10d_functional.{name}")
    for output in outputs:
        state.device_on().comes_later(output, work.wait)
    return outputs if coalesced else outputs[0]


def _kind(name: str) -> tuple[str, bool, bool]:
    in_place = name.endswith("_")
    name = name.removesuffix("_")
    return name.removesuffix("_coalesced"), in_place, name.endswith("_coalesced")


def _group(name):
    return name if isinstance(name, dist.ProcessGroup) else resolve_process_group(name)


class _Options:
    def __init__(self, reduction: str = "sum", root: int = 0) -> None:
        self.reduceOp, self.rootRank = getattr(dist.ReduceOp, reduction.upper()), root


def _rows(tensor: Tensor, rows: int) -> Tensor:
    return tensor.new_empty((rows, *tensor.shape[1:]))


def _own(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _all_reduce(group, inputs, outputs, given) -> tuple[list, Work]:
    outputs = outputs or [_own(tensor) for tensor in inputs]
    return outputs, group.allreduce(outputs, _Options(given["reduce_op"]))


def _broadcast(group, inputs, outputs, given) -> tuple[list, Work]:
    outputs = outputs or [_own(tensor) for tensor in inputs]
    return outputs, group.broadcast(outputs, _Options(root=given["src"]))


def _all_gather(group, inputs, outputs, given) -> tuple[list, Several]:
    outputs = [_rows(tensor, tensor.shape[0] * group.size()) for tensor in inputs]
    return outputs, group.all_gather_single_coalesced(outputs, inputs)


def _reduce_scatter(group, inputs, outputs, given) -> tuple[list, Several]:
    outputs = [_rows(tensor, tensor.shape[0] // group.size()) for tensor in inputs]
    return outputs, group.reduce_scatter_single_coalesced(outputs, inputs, _Options(given["reduce_op"]))


def _all_to_all(group, inputs, outputs, given) -> tuple[list, Work]:
    gives, takes = list(given["input_split_sizes"]), list(given["output_split_sizes"])
    outputs = [_rows(inputs[0], sum(takes))]
    return outputs, group.all_to_all_single(outputs[0], inputs[0].contiguous(), takes, gives)


_KINDS = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather_into_tensor": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter,
    "all_to_all_single": _all_to_all,
}
