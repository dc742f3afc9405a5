"""The cards that can be modelled: dense peaks, bandwidth and memory, each with its source.

A peak is what the vendor's table says for *dense* matrices, never the 2:4-sparse figure.
It is an upper bound of the card, no measurement of ours.
"""

from dataclasses import dataclass

_T, _G, _GIB = 1e12, 1e9, 1024**3


@dataclass(frozen=True)
class Card:
    """One GPU model.

    flops_per_s: dense peak by number format: ``fp64``, ``fp32``, ``tf32``, ``fp16``, ``bf16``,
    ``int8``. ``bytes_per_s``: device memory. ``link_bytes_per_s``: host link, one direction.
    ``sources``: where each figure stands.
    """

    key: str
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    bytes_per_s: float
    link_bytes_per_s: float
    flops_per_s: dict[str, float]
    sources: dict[str, str]


_NVIDIA = "NVIDIA/TensorRT-LLM (16d2467), tensorrt_llm/auto_parallel/cluster_info.py"
_QUOTES = _NVIDIA + ", which quotes "
_H100_SHEET = _QUOTES + "resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_H200_SHEET = _QUOTES + "nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446"
_A100_SHEET = _QUOTES + "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_A10_SHEET = _QUOTES + "nvidia-a10-datasheet.pdf"
_L40S_SHEET = _QUOTES + "resources.nvidia.com/en-us-l40s/l40s-datasheet-28413"
_H100_NOTES = "glennklockwood.com/garden/processors/h100, which cites NVIDIA's H100 whitepaper"
_A100_NOTES = "glennklockwood.com/garden/processors/A100, which cites the same datasheet"
_L40S_SHOP = "NVIDIA's L40S table as quoted at mullet.se/product.html?product_id=355414"
_T4_SHOP = "sysrqmts.com/en/gpus/nvidia/tesla/t4"
_A10_SHOP = "sysrqmts.com, NVIDIA A10 PCIe"
_4090_PRESS = "thefpsreview.com, GeForce RTX 4090 family specifications"


def _link(generation: int, whence: str) -> str:
    """Where the link's rate stands, and where that the card has this generation of PCIe."""
    rate = {3: 16, 4: 32, 5: 64}[generation]
    return f"PCIe {generation}.0 x16: {rate} GB/s each way, before encoding ({_NVIDIA}); generation: {whence}"


def _card(key, name, capability, multiprocessors, gib, bytes_per_s, link, flops, sources) -> Card:
    return Card(
        key,
        name,
        capability,
        multiprocessors,
        gib * _GIB,
        bytes_per_s,
        link,
        {fmt: value * _T for fmt, value in flops.items()},
        sources,
    )


_HOPPER_PEAKS = {"fp64": 66.9, "fp32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4, "int8": 1978.9}
H100 = _card(
    "H100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 80, 3.35 * _T, 64 * _G,
    _HOPPER_PEAKS,
    {
        "flops_per_s": f"TF32, FP16, BF16, INT8: {_H100_SHEET}; FP64, FP32 and the decimals: {_H100_NOTES}",
        "bytes_per_s": _H100_SHEET, "memory_bytes": _H100_SHEET, "link_bytes_per_s": _link(5, _H100_NOTES),
    },
)  # fmt: skip
H200 = _card(
    "H200", "NVIDIA H200", (9, 0), 132, 141, 4.8 * _T, 64 * _G,
    _HOPPER_PEAKS,
    {
        "flops_per_s": "the H100's: FP16, BF16 and INT8 are half of what NVIDIA states with sparsity, 1979 and 3958 "
        f"({_H200_SHEET}); the number of multiprocessors follows from that and was not found stated by NVIDIA",
        "bytes_per_s": _H200_SHEET, "memory_bytes": _H200_SHEET,
        "link_bytes_per_s": _link(5, "the H100's, not checked against NVIDIA's datasheet"),
    },
)  # fmt: skip
A100 = _card(
    "A100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 80, 2.039 * _T, 32 * _G,
    {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312, "int8": 624},
    {
        "flops_per_s": f"TF32, FP16, BF16, INT8: {_A100_SHEET}; FP64, FP32: {_A100_NOTES}",
        "bytes_per_s": _A100_SHEET, "memory_bytes": _A100_SHEET, "link_bytes_per_s": _link(4, _A100_NOTES),
    },
)  # fmt: skip
L40S = _card(
    "L40S", "NVIDIA L40S", (8, 9), 142, 48, 864 * _G, 32 * _G,
    {"fp64": 1.431, "fp32": 91.6, "tf32": 183, "fp16": 362.05, "bf16": 362.05, "int8": 733},
    {
        "flops_per_s": f"TF32, FP16, BF16, INT8: {_L40S_SHEET}; FP32 and the decimals: {_L40S_SHOP}; "
        "FP64: itcreations.com, NVIDIA L40S",
        "bytes_per_s": _L40S_SHEET, "memory_bytes": _L40S_SHEET, "link_bytes_per_s": _link(4, "the same file"),
    },
)  # fmt: skip
RTX_4090 = _card(
    "RTX4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 24, 1008 * _G, 32 * _G,
    {"fp64": 1.29, "fp32": 82.6, "tf32": 82.6, "fp16": 165.2, "bf16": 165.2, "int8": 660.6},
    {
        "flops_per_s": f"128 multiprocessors at 2.52 GHz ({_4090_PRESS}) times 256 FLOP a clock for TF32 and 512 for "
        f"FP16 and BF16 ({_NVIDIA}, ipc_per_sm of 8.9); FP32: 128 lanes x 2; FP64 1/64 of it; INT8 8 x, "
        "not checked against NVIDIA's Ada whitepaper",
        "bytes_per_s": _4090_PRESS, "memory_bytes": _4090_PRESS,
        "link_bytes_per_s": _link(4, "not checked against NVIDIA's specification"),
    },
)  # fmt: skip
A10 = _card(
    "A10", "NVIDIA A10", (8, 6), 72, 24, 600 * _G, 32 * _G,
    {"fp64": 0.976, "fp32": 31.24, "tf32": 62.5, "fp16": 125, "bf16": 125, "int8": 250},
    {
        "flops_per_s": f"TF32, FP16, BF16, INT8: {_A10_SHEET}; FP64, FP32: {_A10_SHOP}",
        "bytes_per_s": _A10_SHEET, "memory_bytes": _A10_SHEET, "link_bytes_per_s": _link(4, "the same file"),
    },
)  # fmt: skip
T4 = _card(
    "T4", "Tesla T4", (7, 5), 40, 16, 320 * _G, 16 * _G,
    {"fp64": 0.254, "fp32": 8.141, "tf32": 8.141, "fp16": 65.13, "bf16": 8.141, "int8": 130},
    {
        "flops_per_s": f"40 multiprocessors at 1.59 GHz ({_T4_SHOP}) times 1024 FLOP a clock for FP16 and 2048 for "
        f"INT8 ({_NVIDIA}, ipc_per_sm of 7.5); FP64, FP32: {_T4_SHOP}; no TF32 or BF16 units: both run at the "
        "FP32 peak here",
        "bytes_per_s": _T4_SHOP, "memory_bytes": _T4_SHOP, "link_bytes_per_s": _link(3, _T4_SHOP),
    },
)  # fmt: skip

CARDS = {card.key: card for card in (H100, H200, A100, L40S, RTX_4090, A10, T4)}


def card_named(key: str) -> Card:
    """The card called ``key``, whatever its case, spaces or hyphens.

    Raises ValueError that lists the cards there are.
    """
    wanted = key.upper().replace(" ", "").replace("-", "").replace("_", "")
    if wanted not in CARDS:
        raise ValueError(f"no card is called {key!r}: choose one of {', '.join(CARDS)}")
    return CARDS[wanted]
