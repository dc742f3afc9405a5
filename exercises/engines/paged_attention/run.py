"""E19.6 paged_attention: what a kernel over a paged cache gave, and what it loaded, stored and launched."""

import ctypes
import mmap
import warnings
from typing import Any

import torch

import gpulab.cuda
from autograder.runner.card import idle_card
from autograder.runner.kernels_ran import kernels_ran, on_host, same_memory, tiles, work_of
from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from gpulab import Observation

_INPUTS = ("q", "k_cache", "v_cache", "tables", "lengths")
_STRIDE = 2**30 + 64
"""Elements from one block to the next in a cache that spans more than 2**31."""


def run(learner: Learner, case: dict) -> dict:
    """One decode step, in a cache that spans ``far``; a second one ``again``, or with ``more`` in place of some of the inputs."""
    if case["way"] == "far":
        return _far(learner, case)
    with idle_card():
        given = _on_the_card([case[name] for name in _INPUTS])
        more = [case["more"][name].cuda() if name in case["more"] else tensor for name, tensor in zip(_INPUTS, given)]
        torch.cuda.synchronize()
        with kernels_ran(*given, *more, interpreter=tiles) as ran, observe() as seen:
            result = learner.paged_attention(*given)
            second = learner.paged_attention(*more) if case["more"] else None
        work = work_of(result, ran, seen) | {"second_bytes": _kernel_bytes(second, seen)}
        torch.cuda.synchronize()
        evidence = {
            "result": on_host(result),
            "second": on_host(second),
            "inputs": [_whole(tensor).cpu() for tensor in given],
            "contiguous": isinstance(result, torch.Tensor) and result.is_contiguous(),
            "is_an_input": any(same_memory(result, tensor) for tensor in given),
            **work,
        }
        again = case["way"] == "again" and same_memory(result, learner.paged_attention(*given))
        return evidence | {"handed_out_twice": again}


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
    """The blocks lie so far apart that a place in the cache passes 2**31. On the CPU, where most of that is never touched."""
    k, v = case["k_cache"], case["v_cache"]
    item, pair = k.element_size(), 2 * k[0].numel()
    memory = _spread(len(k), _STRIDE * item, pair * item).view(k.dtype)
    strides = (_STRIDE, *k.stride()[1:])
    far = [memory.as_strided(k.shape, strides, offset) for offset in (0, k[0].numel())]
    for there, here in zip(far, (k, v)):
        there.copy_(here)
    with gpulab.cuda.use("off", quiet=True), observe() as seen:
        result = learner.paged_attention(case["q"], *far, case["tables"], case["lengths"])
    return {"result": result, "kernel_bytes": _kernel_bytes(result, seen), "seen": seen.to_dict()}


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
            raise OSError(ctypes.get_errno(), "a part of the cache could not be made writable")
    return memory


def _kernel_bytes(result: Any, seen: Observation) -> int:
    """Bytes of it that kernels wrote last."""
    return seen.authors(result).launch_bytes if isinstance(result, torch.Tensor) and result.numel() else 0
