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


_LINK_3 = "PCIe 3.0 x16: half of the 32 GB/s that vendors quote for both directions together"
_LINK_4 = "PCIe 4.0 x16: 32 GB/s each way (glennklockwood.com/garden/processors/A100, 32+32 GB/s)"
_LINK_5 = "PCIe 5.0 x16: half of 128 GB/s (glennklockwood.com/garden/processors/h100)"
_H100 = "glennklockwood.com/garden/processors/h100, which cites NVIDIA's H100 whitepaper"
_A100 = (
    "NVIDIA A100 datasheet nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf, "
    "as quoted at glennklockwood.com/garden/processors/A100"
)
_L40S = "NVIDIA L40S datasheet table, as quoted at mullet.se/product.html?product_id=355414"
_T4 = "sysrqmts.com/en/gpus/nvidia/tesla/t4"
_A10 = "sysrqmts.com, NVIDIA A10 PCIe"
_4090 = "thefpsreview.com, GeForce RTX 4090 family specifications"


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


H100 = _card(
    "H100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 80, 3.35 * _T, 64 * _G,
    {"fp64": 66.9, "fp32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4, "int8": 1978.9},
    {"flops_per_s": _H100, "bytes_per_s": _H100, "memory_bytes": _H100, "link_bytes_per_s": _LINK_5},
)  # fmt: skip
A100 = _card(
    "A100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 80, 2.039 * _T, 32 * _G,
    {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312, "int8": 624},
    {"flops_per_s": _A100, "bytes_per_s": _A100, "memory_bytes": _A100, "link_bytes_per_s": _LINK_4},
)  # fmt: skip
L40S = _card(
    "L40S", "NVIDIA L40S", (8, 9), 142, 48, 864 * _G, 32 * _G,
    {"fp64": 1.431, "fp32": 91.6, "tf32": 183, "fp16": 362.05, "bf16": 362.05, "int8": 733},
    {
        "flops_per_s": _L40S + "; FP64 from itcreations.com, NVIDIA L40S",
        "bytes_per_s": _L40S, "memory_bytes": _L40S, "link_bytes_per_s": _LINK_4,
    },
)  # fmt: skip
RTX_4090 = _card(
    "RTX4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 24, 1008 * _G, 32 * _G,
    {"fp64": 1.29, "fp32": 82.6, "tf32": 82.6, "fp16": 165.2, "bf16": 165.2, "int8": 660.6},
    {
        "flops_per_s": "FP32: 16384 lanes x 2 FLOP x 2.52 GHz (" + _4090 + "); TF32 1 x, FP16 and "
        "BF16 with FP32 accumulation 2 x, INT8 8 x, FP64 1/64 of it (Ada's ratios); not checked "
        "against NVIDIA's Ada whitepaper",
        "bytes_per_s": _4090, "memory_bytes": _4090, "link_bytes_per_s": _LINK_4,
    },
)  # fmt: skip
A10 = _card(
    "A10", "NVIDIA A10", (8, 6), 72, 24, 600.2 * _G, 32 * _G,
    {"fp64": 0.976, "fp32": 31.24, "tf32": 62.5, "fp16": 125, "bf16": 125, "int8": 250},
    {
        "flops_per_s": "FP64, FP32: " + _A10 + "; FP16: 288 tensor cores x 128 FMA x 2 x 1.695 GHz, "
        "TF32 half and INT8 double of it (Ampere's ratios); not checked against NVIDIA's datasheet",
        "bytes_per_s": _A10, "memory_bytes": _A10, "link_bytes_per_s": _LINK_4,
    },
)  # fmt: skip
T4 = _card(
    "T4", "Tesla T4", (7, 5), 40, 16, 320 * _G, 16 * _G,
    {"fp64": 0.254, "fp32": 8.141, "tf32": 8.141, "fp16": 65.13, "bf16": 8.141, "int8": 130},
    {
        "flops_per_s": _T4 + "; INT8 from NVIDIA's launch figures as quoted by geektopia.es; no "
        "TF32 or BF16 units: both run at the FP32 peak here",
        "bytes_per_s": _T4, "memory_bytes": _T4, "link_bytes_per_s": _LINK_3,
    },
)  # fmt: skip

CARDS = {card.key: card for card in (H100, A100, L40S, RTX_4090, A10, T4)}


def card_named(key: str) -> Card:
    """The card called ``key``, whatever its case, spaces or hyphens.

    Raises ValueError that lists the cards there are.
    """
    wanted = key.upper().replace(" ", "").replace("-", "").replace("_", "")
    if wanted not in CARDS:
        raise ValueError(f"no card is called {key!r}: choose one of {', '.join(CARDS)}")
    return CARDS[wanted]
