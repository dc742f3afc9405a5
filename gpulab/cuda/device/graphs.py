"""CUDA graphs: capture a stream's work once, launch all of it with one call."""

import torch

from gpulab.cuda.device import state
from gpulab.cuda.device.capture import Capture
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.streams import rebased
from gpulab.cuda.errors import NotModelled

_NOT_PERMITTED = (
    "CUDA error: operation not permitted when stream is capturing\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
_ERROR_MODES = ("global", "thread_local", "relaxed")


class GraphBase:
    """What ``torch._C._CUDAGraph`` does on a card."""

    def __new__(cls, keep_graph=False):
        self = object.__new__(cls)
        self._capture = None
        return self

    def __init__(self, *args, **kwargs) -> None:
        pass

    def capture_begin(self, pool=None, capture_error_mode="global") -> None:
        device = state.device_on()
        if capture_error_mode not in _ERROR_MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        if device.capture is not None:
            _refuse()
        if device.machine.current.number == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok "
                "to replay them on the default stream.)"
            )
        device.capture = self._capture = Capture(device.generator)
        device.memory.on_new = self._capture.made
        device.machine.captured = self._capture.kernels
        device.machine.refuse_wait = _refuse

    def capture_end(self) -> None:
        device = state.device_on()
        if device.capture is None:
            raise RuntimeError("capture_end() called before capture_begin().")
        if not device.ghost:
            device.capture.undo()
        device.capture = device.memory.on_new = None
        device.machine.captured = device.machine.refuse_wait = None

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
        state.device_on().machine.launch_graph(self._capture.kernels)
        self._capture.run()

    def reset(self) -> None:
        self._capture = None

    def pool(self):
        return (0, 1)

    def enable_debug_mode(self) -> None:
        raise NotModelled("CUDAGraph.enable_debug_mode")

    def debug_dump(self, path: str) -> None:
        raise NotModelled("CUDAGraph.debug_dump")

    def raw_cuda_graph(self) -> int:
        raise NotModelled("CUDAGraph.raw_cuda_graph")

    raw_cuda_graph_exec = raw_cuda_graph


def _refuse() -> None:
    raise torch.AcceleratorError(_NOT_PERMITTED)


def install(patches: Patches) -> None:
    """Put PyTorch's CUDAGraph onto this base, and let it see that a stream is capturing."""

    def is_capturing() -> bool:
        return state.device_on().capture is not None

    graph = rebased(torch.cuda.graphs.CUDAGraph, GraphBase)
    for module in (torch.cuda.graphs, torch.cuda):
        patches.set(module, "CUDAGraph", graph)
        patches.set(module, "is_current_stream_capturing", is_capturing)
    patches.set(torch.cuda.graphs, "graph_pool_handle", lambda: (0, 1))
    patches.set(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    # The stream that captures are made on belongs to this card and goes with it.
    patches.set(torch.cuda.graph, "default_capture_stream", None)
