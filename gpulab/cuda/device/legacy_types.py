"""``torch.cuda.FloatTensor`` and its like: types that were constructors before PyTorch had dtypes."""

import torch

from gpulab.cuda.device.patches import Patches

_DTYPES = {
    "BFloat16": torch.bfloat16, "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Double": torch.float64,
    "Float": torch.float32, "Half": torch.float16, "Int": torch.int32, "Long": torch.int64, "Short": torch.int16,
}  # fmt: skip


class _Legacy(type):
    """The type of such a type: it makes tensors and knows its own."""

    dtype: torch.dtype

    def __call__(cls, *sizes) -> torch.Tensor:
        """Uninitialised where sizes are given, of a sequence's values where one is."""
        if len(sizes) == 1 and not isinstance(sizes[0], (int, torch.Size)):
            return torch.tensor(sizes[0], dtype=cls.dtype, device="cuda")
        return torch.empty(*sizes or (0,), dtype=cls.dtype, device="cuda")

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is cls.dtype


def install(patches: Patches) -> None:
    """Replace those of ``torch.cuda``."""
    for kind, dtype in _DTYPES.items():
        name = f"{kind}Tensor"
        patches.set(torch.cuda, name, _Legacy(name, (), {"__module__": "torch.cuda", "dtype": dtype}))
