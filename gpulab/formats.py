"""Number formats of deep learning: what their bits mean, and blocks of them that share a scale.

Sources: IEEE 754-2019 (fp32, fp16), Google's description of bfloat16, NVIDIA's of TF32, the OCP specifications
of 8-bit floating point (OFP8) and of microscaling formats (MX), NVIDIA's description of NVFP4. The book's
bibliography names them. Nothing here rounds a number to a format: PyTorch's casts do.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Format:
    """A floating-point format: sign, exponent, mantissa, from the most significant bit down.

    ``reserved``: what the patterns with the largest exponent are. ``ieee``: infinities and NaNs; ``nan``: numbers,
    but for the last, which is NaN; ``none``: numbers. ``stored_bits``: what one number occupies in memory.
    ``dtype``: PyTorch's, None where it has none for a single number.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    reserved: Literal["ieee", "nan", "none"] = "ieee"
    signed: bool = True
    dtype: torch.dtype | None = None
    stored_bits: int = 0

    def __post_init__(self) -> None:
        if not self.stored_bits:
            object.__setattr__(self, "stored_bits", self.bits)

    @property
    def bits(self) -> int:
        """Of a pattern: those that carry the number."""
        return self.signed + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        """What is subtracted from the exponent field."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def has_subnormals(self) -> bool:
        """A scale without mantissa has none, and no zero either."""
        return self.mantissa_bits > 0

    @property
    def last_pattern(self) -> int:
        """Of the largest number, the sign bit aside."""
        top = 2 ** (self.exponent_bits + self.mantissa_bits) - 1
        return top - {"ieee": 2**self.mantissa_bits, "nan": 1, "none": 0}[self.reserved]

    @property
    def largest(self) -> float:
        return float(self.decode(torch.tensor(self.last_pattern)))

    @property
    def least_normal(self) -> float:
        return 2.0 ** ((1 if self.has_subnormals else 0) - self.bias)

    @property
    def least(self) -> float:
        """The smallest number above zero: a subnormal one where there are such."""
        return self.least_normal * 2.0**-self.mantissa_bits

    @property
    def epsilon(self) -> float:
        """From 1 to the next number. Between 2**k and 2**(k + 1) numbers are ``epsilon * 2**k`` apart."""
        return 2.0**-self.mantissa_bits

    def decode(self, patterns: Tensor) -> Tensor:
        """The numbers that ``patterns``, integers of any shape, stand for: float64, exact.

        Raises ValueError for a pattern that has more bits than the format.
        """
        patterns = patterns.to(torch.int64)
        if patterns.numel() and (patterns.min() < 0 or patterns.max() >= 2**self.bits):
            raise ValueError(f"a pattern of {self.name} is from 0 to {2**self.bits - 1}")
        mantissa = patterns % 2**self.mantissa_bits
        exponent = (patterns >> self.mantissa_bits) % 2**self.exponent_bits
        hidden = (exponent > 0) if self.has_subnormals else torch.ones_like(exponent)
        scale = exponent.clamp(min=int(self.has_subnormals)) - self.bias - self.mantissa_bits
        value = torch.ldexp((mantissa + (hidden << self.mantissa_bits)).double(), scale.double())
        value = self._with_reserved(value, patterns % 2 ** (self.exponent_bits + self.mantissa_bits), mantissa)
        return torch.where(patterns >> (self.bits - 1) > 0, -value, value) if self.signed else value

    def _with_reserved(self, value: Tensor, magnitude: Tensor, mantissa: Tensor) -> Tensor:
        beyond = magnitude > self.last_pattern
        infinite = beyond & (mantissa == 0) & (self.reserved == "ieee")
        return value.masked_fill(beyond, torch.nan).masked_fill(infinite, torch.inf)


@dataclass(frozen=True)
class BlockFormat:
    """Numbers of a small format in blocks of ``block`` neighbours that share a scale.

    ``tensor_scale``: whether one float32 more scales the whole tensor.
    """

    name: str
    element: Format
    block: int
    scale: Format
    tensor_scale: bool = False

    @property
    def bits_per_number(self) -> float:
        """With its share of the block's scale, without the tensor's."""
        return self.element.bits + self.scale.bits / self.block

    def decode(self, elements: Tensor, scales: Tensor, tensor_scale: float = 1.0) -> Tensor:
        """The numbers (..., n) of patterns (..., n), not packed, and scale patterns (..., n / block): float64.

        Raises ValueError where the shapes do not fit, and for a tensor scale that the format does not have.
        """
        if elements.shape[-1] != scales.shape[-1] * self.block or elements.shape[:-1] != scales.shape[:-1]:
            raise ValueError(
                f"{self.name}: {tuple(elements.shape)} numbers need a scale for each {self.block} of the last dimension"
            )
        if tensor_scale != 1.0 and not self.tensor_scale:
            raise ValueError(f"{self.name} has no scale for the whole tensor")
        scale = self.scale.decode(scales).repeat_interleave(self.block, -1)
        return self.element.decode(elements) * (scale * tensor_scale)


def unpack_fp4(packed: Tensor) -> Tensor:
    """Patterns (..., 2n) of bytes (..., n) that hold two each, the first in the low half."""
    return torch.stack((packed % 16, packed >> 4), -1).flatten(-2)


FP32 = Format("fp32", 8, 23, dtype=torch.float32)
TF32 = Format("tf32", 8, 10, stored_bits=32)
"""What a matrix unit reads of a float32 under TF32: its upper 19 bits. A tensor still holds all 32."""
BF16 = Format("bf16", 8, 7, dtype=torch.bfloat16)
FP16 = Format("fp16", 5, 10, dtype=torch.float16)
E4M3 = Format("fp8 e4m3", 4, 3, "nan", dtype=torch.float8_e4m3fn)
E5M2 = Format("fp8 e5m2", 5, 2, dtype=torch.float8_e5m2)
E3M2 = Format("fp6 e3m2", 3, 2, "none")
E2M3 = Format("fp6 e2m3", 2, 3, "none")
E2M1 = Format("fp4 e2m1", 2, 1, "none")
E8M0 = Format("e8m0", 8, 0, "nan", signed=False, dtype=torch.float8_e8m0fnu)
"""A power of two: the scale of an MX block."""

FORMATS = {one.name: one for one in (FP32, TF32, BF16, FP16, E4M3, E5M2, E3M2, E2M3, E2M1, E8M0)}
BLOCK_FORMATS = {
    one.name: one
    for one in (
        BlockFormat("MXFP8 e4m3", E4M3, 32, E8M0),
        BlockFormat("MXFP8 e5m2", E5M2, 32, E8M0),
        BlockFormat("MXFP6 e3m2", E3M2, 32, E8M0),
        BlockFormat("MXFP6 e2m3", E2M3, 32, E8M0),
        BlockFormat("MXFP4", E2M1, 32, E8M0),
        BlockFormat("NVFP4", E2M1, 16, E4M3, tensor_scale=True),
    )
}
