"""E19.6 paged_attention: what a kernel over a paged cache gave, and what it loaded, stored and launched."""

import ctypes
import itertools
import mmap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

import gpulab.cuda
from autograder.runner.card import idle_card
from autograder.runner.kernels_ran import Ran, kernels_ran, on_host, same_memory, tiles, work_of
from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from gpulab import Observation

_INPUTS = ("q", "k_cache", "v_cache", "tables", "lengths")
_APART = 2**30 + 64
"""Elements from one index to the next along a far dimension: the third lies beyond 2**31."""


def run(learner: Learner, case: dict) -> dict:
    """One decode step, with some inputs ``far``; three times ``again``, or once more with ``more`` in place of some inputs."""
    if case["far"]:
        return _far(learner, case)
    with idle_card():
        given = _on_the_card([case[name] for name in _INPUTS])
        more = [case["more"][name].cuda() if name in case["more"] else tensor for name, tensor in zip(_INPUTS, given)]
        torch.cuda.synchronize()
        with kernels_ran(*given, *more, interpreter=tiles) as ran, observe() as seen:
            with _noted(ran, list(zip(2 * _INPUTS, [*given, *more]))) as noted:
                result = learner.paged_attention(*given)
                second = learner.paged_attention(*more) if case["more"] else None
        work = work_of(result, ran, seen) | {"second_bytes": _kernel_bytes(second, seen)}
        torch.cuda.synchronize()
        evidence = {
            "result": on_host(result),
            "second": on_host(second),
            "contiguous": isinstance(result, torch.Tensor) and result.is_contiguous(),
            "is_an_input": any(same_memory(result, tensor) for tensor in given),
            **noted,
            **work,
        }
        results = [result, *(learner.paged_attention(*given) for _ in range(2 if case["again"] else 0))]
        again = any(same_memory(*pair) for pair in itertools.combinations(results, 2))
        return evidence | {"handed_out_twice": again}


@contextmanager
def _noted(ran: Ran, named: list[tuple[str, torch.Tensor]]) -> Iterator[dict]:
    """Of each launch: which input each of its arrays lies in, and how many arguments are no tensors. Of all: dots in TF32."""
    from gpulab.kernels.tiles import builder, interpret

    noted = {"handed": [], "tf32": False}
    inputs = {tensor.untyped_storage()._cdata: name for name, tensor in named}
    before, dot = ran.sources.before, builder.CountingBuilder.create_dot

    def launching(arguments: dict) -> None:
        storages = {name: tensor.untyped_storage()._cdata for name, tensor in interpret.tensors_of(arguments)}
        arrays = {name: inputs[storage] for name, storage in storages.items() if storage in inputs}
        noted["handed"].append({"arrays": arrays, "others": sum(map(_items, arguments.values())) - len(storages)})
        before(arguments)

    def dotting(self, a, b, d, precision, *rest):
        noted["tf32"] |= str(a.dtype.scalar) == "fp32" and getattr(precision, "name", "") == "TF32"
        return dot(self, a, b, d, precision, *rest)

    ran.sources.before, builder.CountingBuilder.create_dot = launching, dotting
    try:
        yield noted
    finally:
        builder.CountingBuilder.create_dot = dot


def _items(value: Any) -> int:
    return sum(map(_items, value)) if isinstance(value, tuple | list) else 1


def _on_the_card(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Of the same shapes and strides; what shared a storage does so there."""
    storages: dict[int, torch.Tensor] = {}
    for tensor in tensors:
        key = tensor.untyped_storage()._cdata
        storages[key] = storages[key] if key in storages else _whole(tensor).cuda()
    return [
        storages[tensor.untyped_storage()._cdata].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        for tensor in tensors
    ]


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of its storage, in one dimension."""
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def _far(learner: Learner, case: dict) -> dict:
    """Along one dimension, places in some inputs pass 2**31. On the CPU, where most of that is never touched."""
    apart = _apart([case[name] for name in case["far"]], case["axis"])
    given = case | dict(zip(case["far"], apart))
    with gpulab.cuda.use("off", quiet=True), observe() as seen:
        result = learner.paged_attention(*(given[name] for name in _INPUTS))
    return {"result": result, "kernel_bytes": _kernel_bytes(result, seen), "seen": seen.to_dict()}


def _apart(tensors: list[torch.Tensor], axis: int) -> list[torch.Tensor]:
    """Equal to those, which are equally large, in one storage: parts along ``axis`` lie ``_APART`` elements apart."""
    first = tensors[0].movedim(axis, 0).contiguous()
    item, part = first.element_size(), first[0].numel()
    memory = _spread(len(first), _APART * item, len(tensors) * part * item).view(first.dtype)
    strides = (_APART, *first.stride()[1:])
    far = [memory.as_strided(first.shape, strides, number * part).movedim(0, axis) for number in range(len(tensors))]
    for there, here in zip(far, tensors):
        there.copy_(here)
    return far


def _spread(parts: int, apart: int, nbytes: int) -> torch.Tensor:
    """Bytes, of which ``nbytes`` can be written at every ``apart``-th, ``parts`` times. What lies between is zeros and no memory.

    Private memory that can be written counts towards a process's limit, and shared memory a kernel is refused.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that a buffer which cannot be written should not be.
        memory = torch.frombuffer(
            mmap.mmap(-1, (parts - 1) * apart + nbytes, flags=flags, prot=mmap.PROT_READ), dtype=torch.uint8
        )
    for part in range(parts):
        begin = memory.data_ptr() + part * apart
        page = begin - begin % mmap.PAGESIZE
        size = begin + nbytes - page
        if ctypes.CDLL(None, use_errno=True).mprotect(
            ctypes.c_void_p(page), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE
        ):
            raise OSError(ctypes.get_errno(), "a part of an input could not be made writable")
    return memory


def _kernel_bytes(result: Any, seen: Observation) -> int:
    """Bytes of it that kernels wrote last."""
    return seen.authors(result).launch_bytes if isinstance(result, torch.Tensor) and result.numel() else 0
