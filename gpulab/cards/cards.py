"""The cards that can be modelled: dense peaks, bandwidth and memory, each with its source.

A peak is what the vendor's table says for *dense* matrices, never the 2:4-sparse figure.
It is an upper bound of the card, no measurement of ours.
"""

from dataclasses import dataclass
from functools import cached_property

from gpulab.cards import constants as assumed
from gpulab.cards.links import LINKS

_T, _G, _MIB = 1e12, 1e9, 1 << 20


@dataclass(frozen=True)
class Card:
    """One GPU model.

    flops_per_s: dense peak by number format: ``fp64`` and ``fp32`` of the vector units, ``tf32``,
    ``fp16``, ``bf16``, ``int8`` and ``fp64 matrix`` of the matrix units.
    ``memory_bytes``: what the driver reports, less than is soldered on. ``bytes_per_s``: device memory. ``link_bytes_per_s``: host link, one direction.
    ``clock_hz``: of the multiprocessors, at its boost.
    ``sources``: where each figure stands.
    """

    key: str
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    bytes_per_s: float
    link_bytes_per_s: float
    clock_hz: float
    flops_per_s: dict[str, float]
    sources: dict[str, str]

    @cached_property
    def sustained_bytes_per_s(self) -> float:
        """What a kernel bound by memory reaches of ``bytes_per_s``."""
        return self.bytes_per_s * assumed.MEMORY_SHARE.get(self.key, assumed.HBM_SHARE)

    def matrix_flops_per_s(self, fmt: str) -> float:
        """What a large product reaches of the peak of number format ``fmt``."""
        return self.flops_per_s[fmt] * assumed.MATRIX_SHARE.get(self.key, assumed.USUAL_MATRIX_SHARE)


_FILE = "NVIDIA/TensorRT-LLM (16d2467), tensorrt_llm/auto_parallel/cluster_info.py"
_QUOTES = _FILE + ", which quotes "
_H100_SHEET = _QUOTES + "resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_H200_SHEET = _QUOTES + "nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446"
_A100_SHEET = _QUOTES + "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_A10_SHEET = _QUOTES + "nvidia-a10-datasheet.pdf"
_L40S_SHEET = _QUOTES + "resources.nvidia.com/en-us-l40s/l40s-datasheet-28413"
_IPC = _FILE + ", ipc_per_sm"
_GUIDE = "CUDA programming guide, throughput of native arithmetic instructions"

# Results of one multiprocessor a clock, by compute capability: 32-bit and 64-bit multiply-adds.
_ADDS_A_CLOCK = {(7, 5): (64, 2), (8, 0): (64, 32), (8, 6): (128, 2), (8, 9): (128, 2), (9, 0): (128, 64)}


def _card(key, name, capability, multiprocessors, mhz, mib, bytes_per_s, pcie, dense, sources) -> Card:
    """``dense``: TFLOP/s of the matrix units. Vector rates are lanes x clock x 2."""
    fp32, fp64 = (2 * adds * multiprocessors * mhz * 1e6 for adds in _ADDS_A_CLOCK[capability])
    matrix = {fmt: value * _T for fmt, value in dense.items()}
    return Card(
        key,
        name,
        capability,
        multiprocessors,
        mib * _MIB,
        bytes_per_s,
        LINKS[f"PCIe {pcie}"].bytes_per_s,
        mhz * 1e6,
        {
            "fp64": fp64,
            "fp32": fp32,
            "tf32": fp32,
            "bf16": fp32,
            "fp64 matrix": fp64 * (2 if fp64 * 2 == fp32 else 1),
            **matrix,
        },
        {
            "multiprocessors, clock_hz": "reported by the card to deviceQuery (NVIDIA/cuda-samples)",
            "memory_bytes": f"reported by the card to deviceQuery or PyTorch: {mib:,} MiB; some MiB more or less by driver",
            "fp32, fp64": f"derived: {_GUIDE}, for {capability[0]}.{capability[1]}, x {multiprocessors} multiprocessors "
            f"x {mhz} MHz x 2",
            "fp64 matrix": "twice fp64 where the matrix units take it: datasheets of A100 (9.7, 19.5 TFLOP/s) and H100 (34, 67)",
            "link_bytes_per_s": f"PCIe {pcie}.0 x16, before encoding and packets: {LINKS[f'PCIe {pcie}'].source}",
            **sources,
        },
    )


def _tensor(multiprocessors: int, mhz: int, fma: dict[str, int]) -> dict[str, float]:
    """TFLOP/s by what one multiprocessor's matrix units do in a clock."""
    return {fmt: 2 * each * multiprocessors * mhz / 1e6 for fmt, each in fma.items()}


_HOPPER_PEAKS = {"tf32": 495, "fp16": 989, "bf16": 989, "int8": 1979}
H100 = _card(
    "H100",
    "NVIDIA H100 80GB HBM3",
    (9, 0),
    132,
    1980,
    81079,
    3.35 * _T,
    5,
    _HOPPER_PEAKS,
    {
        "tf32, fp16, bf16, int8": f"{_H100_SHEET}; dense",
        "bytes_per_s": _H100_SHEET,
    },
)
H200 = _card(
    "H200",
    "NVIDIA H200",
    (9, 0),
    132,
    1980,
    143156,
    4.8 * _T,
    5,
    _HOPPER_PEAKS,
    {
        "tf32, fp16, bf16, int8": f"the H100's; {_H200_SHEET} states them with sparsity, 1979 and 3958",
        "bytes_per_s": _H200_SHEET,
    },
)
A100 = _card(
    "A100",
    "NVIDIA A100-SXM4-80GB",
    (8, 0),
    108,
    1410,
    81051,
    2.039 * _T,
    4,
    {"tf32": 156, "fp16": 312, "bf16": 312, "int8": 624},
    {"tf32, fp16, bf16, int8": _A100_SHEET, "bytes_per_s": _A100_SHEET},
)
L40S = _card(
    "L40S",
    "NVIDIA L40S",
    (8, 9),
    142,
    2520,
    45373,
    864 * _G,
    4,
    {"tf32": 183, "fp16": 362, "bf16": 362, "int8": 733},
    {"tf32, fp16, bf16, int8": _L40S_SHEET, "bytes_per_s": _L40S_SHEET},
)
RTX_4090 = _card(
    "RTX4090",
    "NVIDIA GeForce RTX 4090",
    (8, 9),
    128,
    2520,
    24081,
    1008.1 * _G,
    4,
    _tensor(128, 2520, {"tf32": 128, "fp16": 256, "bf16": 256, "int8": 1024}),
    {
        "tf32, fp16, bf16, int8": f"derived: {_IPC} of 8.9, for INT8 what the L40S's datasheet comes to a clock, "
        "x 128 multiprocessors x 2520 MHz; not checked against a table of NVIDIA's",
        "bytes_per_s": "derived from what the card reports: 384 bit x 10501 MHz x 2",
    },
)
A10 = _card(
    "A10",
    "NVIDIA A10",
    (8, 6),
    72,
    1695,
    22599,
    600 * _G,
    4,
    {"tf32": 62.5, "fp16": 125, "bf16": 125, "int8": 250},
    {"tf32, fp16, bf16, int8": _A10_SHEET, "bytes_per_s": _A10_SHEET},
)
T4 = _card(
    "T4",
    "Tesla T4",
    (7, 5),
    40,
    1590,
    15095,
    320 * _G,
    3,
    _tensor(40, 1590, {"fp16": 512, "int8": 1024}),
    {
        "tf32, fp16, bf16, int8": f"derived: {_IPC} of 7.5, x 40 multiprocessors x 1590 MHz; no TF32 or BF16 units: "
        "both run at the FP32 rate here",
        "bytes_per_s": "derived from what the card reports: 256 bit x 5001 MHz x 2",
    },
)

CARDS = {card.key: card for card in (H100, H200, A100, L40S, RTX_4090, A10, T4)}


def card_named(key: str) -> Card:
    """The card called ``key``, whatever its case, spaces or hyphens.

    Raises ValueError that lists the cards there are.
    """
    wanted = key.upper().replace(" ", "").replace("-", "").replace("_", "")
    if wanted not in CARDS:
        raise ValueError(f"no card is called {key!r}: choose one of {', '.join(CARDS)}")
    return CARDS[wanted]
