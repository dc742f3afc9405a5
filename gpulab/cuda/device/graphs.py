"""CUDA graphs: capture a stream's work once, launch all of it with one call."""

import itertools
import warnings
import weakref

import torch

from gpulab.cuda.device import capturing, state
from gpulab.cuda.device.capture import Capture
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.streams import rebased
from gpulab.cuda.errors import NotModelled

_EMPTY = (
    "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream."
)
_OWNS_ONE = "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
_ERROR_MODES = ("global", "thread_local", "relaxed")
# As PyTorch numbers memory pools: (n, 0) a graph's own, (0, n) those that the program asked for.
_OWN, _ASKED_FOR = itertools.count(1), itertools.count(1)


class GraphBase:
    """What ``torch._C._CUDAGraph`` does on a card."""

    def __new__(cls, keep_graph=False):
        self = object.__new__(cls)
        self._begun = self._capture = self._release = None
        return self

    def __init__(self, *args, **kwargs) -> None:
        pass

    def capture_begin(self, pool=None, capture_error_mode="global") -> None:
        device = state.device_on()
        self._check_may_begin(device, capture_error_mode)
        pool = tuple(pool) if pool is not None and any(pool) else (next(_OWN), 0)
        self._begun = Capture(device.generator, pool, device.machine.current.number)
        capturing.begin(self._begun)

    def _check_may_begin(self, device, capture_error_mode: str) -> None:
        if capture_error_mode not in _ERROR_MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        if self._capture is not None:
            raise RuntimeError(_OWNS_ONE)
        if device.capture is not None:
            capturing.refuse()
        if device.machine.current.number == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok "
                "to replay them on the default stream.)"
            )

    def capture_end(self) -> None:
        device = state.device_on()
        if device.under_way is None or device.under_way is not self._begun:
            raise RuntimeError("capture_end() called before capture_begin().")
        if device.machine.current.number != self._begun.forks.origin:
            raise RuntimeError("Capture must end on the same stream it began on.")
        captured, self._begun = self._begun, None
        capturing.end()
        if not captured.kernels:
            warnings.warn(_EMPTY, stacklevel=2)
        self._capture = captured
        # As on a card the pool of a capture that failed is never given back.
        self._release = weakref.finalize(captured, device.machine.allocator.release_pool, captured.pool)

    # From PyTorch 2.14 on its Python ends a capture in two steps, and instantiates the graph between them.

    capture_end_pre = capture_end

    def capture_end_post(self) -> None:
        pass

    def instantiate(self) -> None:
        if self._capture is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")

    @property
    def _has_graph_exec(self) -> bool:
        return self._capture is not None

    def register_generator_state(self, generator) -> None:
        """Every generator of the card is read when the graph runs."""

    def replay(self) -> None:
        if self._capture is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        device, capture = state.device_on(), self._capture
        if device.capture is not None:
            raise NotModelled("the replay of a CUDA graph inside the capture of another")
        mapped = device.addresses.map(capture.places)
        device.machine.launch_graph(capture.launches(mapped))
        if not device.ghost:
            capture.run(mapped)
            device.addresses.unmap(capture.places)

    def reset(self) -> None:
        self._capture = None
        if self._release is not None:
            self._release()

    def pool(self):
        if self._capture is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._capture.pool

    def enable_debug_mode(self) -> None:
        raise NotModelled("CUDAGraph.enable_debug_mode")

    def debug_dump(self, path: str) -> None:
        raise NotModelled("CUDAGraph.debug_dump")

    def raw_cuda_graph(self) -> int:
        raise NotModelled("CUDAGraph.raw_cuda_graph")

    raw_cuda_graph_exec = raw_cuda_graph


def install(patches: Patches) -> None:
    """Put PyTorch's CUDAGraph onto this base, and let it see that a stream is capturing."""

    def is_capturing() -> bool:
        return state.device_on().capture is not None

    graph = rebased(torch.cuda.graphs.CUDAGraph, GraphBase)
    for module in (torch.cuda.graphs, torch.cuda):
        patches.set(module, "CUDAGraph", graph)
        patches.set(module, "is_current_stream_capturing", is_capturing)
        patches.set(module, "graph_pool_handle", lambda: (0, next(_ASKED_FOR)))
    # The stream that captures are made on belongs to this card and goes with it.
    patches.set(torch.cuda.graph, "default_capture_stream", None)
