"""Runs TorchInductor up to its generated code, without a C++ compiler, to show which kernels it fuses."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch

from gpulab.compat.inductor import (
    COMPILE_TO_MODULE,
    DEFINE_KERNEL,
    KERNEL_NAME,
    TRITON_HASH,
    ExternKernelSchedulerNode,
    GraphLowering,
    MultiOutput,
    NopKernelSchedulerNode,
    autograd_config,
    config,
)
from gpulab.kernels.fusion.records import FusedKernel
from gpulab.kernels.fusion.stacks import line_of_node

_SETTINGS = {
    # Scheduled as for a GPU; the CPU's own backend would call a C++ compiler.
    "cpu_backend": "triton",
    "compile_threads": 1,
    # Every compilation is seen, and none leaves a file behind for the next.
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "triton.descriptive_names": "original_aten",
}


@contextmanager
def planned(launched: Callable[[tuple[FusedKernel, ...]], None], compiled: Callable[[], None]) -> Iterator[None]:
    """Graphs compiled inside the block tell their kernels to ``launched`` whenever they run.

    ``compiled`` is called for each graph. On tensors of a real GPU the real kernels run (untested on
    a GPU); elsewhere PyTorch computes the values, operation by operation.
    """
    really_compile = COMPILE_TO_MODULE.value

    def compile_to_module(graph: GraphLowering):
        compiled()
        with _sources() as sources:
            on_gpu = graph.device_type == "cuda"
            module = really_compile(graph) if on_gpu else graph.codegen() and SimpleNamespace(call=_interpreted(graph))
        kernels = tuple(_kernels(graph, sources))
        call = module.call

        def counted(arguments):
            launched(kernels)
            return call(arguments)

        module.call = counted
        return module

    with ExitStack() as stack:
        stack.enter_context(config.patch(_SETTINGS))
        stack.enter_context(autograd_config.patch(enable_autograd_cache=False))
        stack.enter_context(patch.object(*COMPILE_TO_MODULE, compile_to_module))
        if not torch.cuda.is_available():
            # It asks for the GPU's compiler, to tell one cache entry from another.
            stack.enter_context(patch.object(*TRITON_HASH, lambda: "none"))
        yield


def _interpreted(graph: GraphLowering) -> Callable:
    interpreter = torch.fx.Interpreter(graph.module)

    def call(arguments: list):
        given = list(arguments)
        arguments.clear()
        return interpreter.run(*given)

    return call


@contextmanager
def _sources() -> Iterator[dict[str, tuple[str, str]]]:
    """Scheduler node to the name and the source of the kernel that it went into, for what is generated inside."""
    found: dict[str, tuple[str, str]] = {}
    define = DEFINE_KERNEL.value

    def define_kernel(self, source, schedule, *rest):
        name = define(self, source, schedule, *rest)
        text = _function(source).replace(KERNEL_NAME, name)
        found.update({node.get_name(): (name, text) for node in schedule if hasattr(node, "get_name")})
        return name

    with patch.object(*DEFINE_KERNEL, define_kernel):
        yield found


def _function(source: str) -> str:
    """The jit function alone, without Inductor's notes to itself."""
    found = re.search(r"^@triton\.jit\n.*", source, flags=re.M | re.S)
    return found.group() if found else source


def _kernels(graph: GraphLowering, sources: dict[str, tuple[str, str]]) -> Iterator[FusedKernel]:
    for node in graph.scheduler.nodes:
        if isinstance(node, NopKernelSchedulerNode):
            continue
        read, written = node.get_read_buffer_sizes(), node.get_write_buffer_sizes()
        if isinstance(node, ExternKernelSchedulerNode):
            # A part of a result that the library returned is no launch.
            if not isinstance(node.node, MultiOutput):
                name = getattr(node.node, "python_kernel_name", None) or node.get_name()
                yield FusedKernel(name, "library", *_described(_origins([node])[-1:]), read, written)
            continue
        inner = list(node.get_nodes())
        ops, lines = _described(_origins(inner))
        for name, source in dict.fromkeys(sources[part.get_name()] for part in inner if part.get_name() in sources):
            yield FusedKernel(name, "triton", ops, lines, read, written, source)
            read = written = 0


def _origins(nodes: list) -> list[torch.fx.Node]:
    """The operations that scheduled nodes came from, in the order of the graph."""
    found = {origin for node in nodes for origin in node.node.get_origins() if origin.op == "call_function"}
    return sorted(found, key=lambda origin: origin._sort_key)


def _described(origins: list[torch.fx.Node]) -> tuple[tuple[str, ...], tuple]:
    """Names of PyTorch's operations, and the learner's lines."""
    ops = [str(origin.meta.get("original_aten") or origin.target) for origin in origins]
    lines = [line for line in map(line_of_node, origins) if line is not None]
    return tuple(dict.fromkeys(".".join(op.split(".")[:2]) for op in ops)), tuple(dict.fromkeys(lines))
