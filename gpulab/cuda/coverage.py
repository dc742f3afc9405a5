"""What runs on the virtual device and what says that it does not: for the book, checked by the tests.

``tests/cuda`` runs every module and optimizer that is not in the lists below, the packages,
and every call of ``REFUSED``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Package:
    """Somebody else's package: what of it gives the host's values, unmodified."""

    package: str
    runs: str


PACKAGES = (
    Package("transformers", "training step of GPT-2, Llama, BERT and ViT; greedy generation of GPT-2 and Llama"),
    Package("peft", "training step and merging of LoRA adapters on GPT-2"),
    Package("diffusers", "gradients of a UNet with attention; DDPM noising; DDIM sampling"),
    Package("accelerate", "a training loop prepared by Accelerator, with pinned batches"),
)

MODULES_LEFT_OUT = {
    "abstract or a container": (
        "Module",
        "Container",
        "ModuleDict",
        "ModuleList",
        "ParameterDict",
        "ParameterList",
        "RNNBase",
        "RNNCellBase",
    ),
    "for several cards": ("DataParallel",),
    "deprecated": ("NLLLoss2d",),
}

OPTIMIZERS_LEFT_OUT = {"abstract": ("Optimizer",), "sparse tensors": ("SparseAdam",)}


def modules() -> list[str]:
    """The names of torch.nn's modules that run."""
    return _public(torch.nn, torch.nn.Module, MODULES_LEFT_OUT)


def optimizers() -> list[str]:
    """The names of torch.optim's optimizers that run."""
    return _public(torch.optim, torch.optim.Optimizer, OPTIMIZERS_LEFT_OUT)


def _public(owner, base: type, left_out: dict) -> list[str]:
    without = {name for names in left_out.values() for name in names}
    classes = {n for n, v in vars(owner).items() if isinstance(v, type) and issubclass(v, base)}
    return sorted(classes - without)


def _ones() -> torch.Tensor:
    return torch.ones(2, device="cuda")


def _profile(**options) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, **options):
        pass


def _sent_to_another_process() -> None:
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.dumps(_ones())


def _captured(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def _replayed_without_its_memory() -> None:
    torch.cuda.empty_cache()
    x = torch.ones(1 << 24, device="cuda")  # in a segment of its own
    graph = _captured(lambda: x.add_(1))
    x.set_()
    torch.cuda.empty_cache()
    graph.replay()


def _packed_attention() -> None:
    from torch.nn.attention.varlen import varlen_attn

    rows = torch.ones(4, 1, 64, device="cuda", dtype=torch.bfloat16)
    starts = torch.tensor([0, 1, 4], device="cuda", dtype=torch.int32)
    varlen_attn(rows, rows, rows, starts, starts, 3, 3)


def _semi_structured() -> None:
    from torch.sparse import to_sparse_semi_structured

    to_sparse_semi_structured(torch.tensor([0.0, 0.0, 1.0, 1.0], device="cuda").half().tile(64, 16))


REFUSED: dict[str, Callable[[], object]] = {
    "torch.compile": lambda: torch.compile(torch.sin),
    "torch.export": lambda: torch.export.export(torch.nn.ReLU(), (_ones(),)),
    "random factories and moves inside torch.func": lambda: torch.func.vmap(lambda t: t.cpu())(_ones()),
    "torch.cuda.make_graphed_callables": lambda: torch.cuda.make_graphed_callables(None, ()),
    "in a CUDA graph: copies between host and device, collectives, kernels written in Python, another graph's replay": (
        lambda: _captured(lambda: _ones().cpu())
    ),
    "the replay of a CUDA graph whose memory was freed and went back to the driver": _replayed_without_its_memory,
    "torch.cuda.MemPool": lambda: torch.cuda.MemPool(),
    "torch.cuda.caching_allocator_alloc": lambda: torch.cuda.caching_allocator_alloc(1),
    "torch.cuda.ExternalStream": lambda: torch.cuda.ExternalStream(1),
    "torch.cuda.Event(interprocess=True)": lambda: torch.cuda.Event(interprocess=True),
    "a device property outside the card's table": lambda: torch.cuda.get_device_properties(0).L2_cache_size,
    "torch.cuda.utilization, temperature, power_draw": lambda: torch.cuda.utilization(),
    "varlen_attn": _packed_attention,
    "semi-structured sparsity": _semi_structured,
    "NCCL outside of gpulab.collectives.run_ranks": lambda: torch.distributed.init_process_group("nccl"),
    "sparse tensors": lambda: _ones().to_sparse(),
    "Tensor.share_memory_": lambda: _ones().share_memory_(),
    "a device tensor sent to another process": _sent_to_another_process,
    "a lazy module moved before its first batch, or made on the device": lambda: torch.nn.LazyLinear(2).cuda(),
    "DLPack": lambda: torch.utils.dlpack.to_dlpack(_ones()),
    "torch.profiler with profile_memory=True": lambda: _profile(profile_memory=True),
    "torch.profiler with with_modules=True": lambda: _profile(with_modules=True),
}
