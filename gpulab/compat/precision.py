"""What float32 products may be rounded to."""

import torch

fp32_precision = torch._C._get_fp32_precision_getter
"""``(backend, operation)``, as in ``("cuda", "matmul")``: ``tf32``, ``ieee`` or ``none``, whichever of PyTorch's names it was set by."""
