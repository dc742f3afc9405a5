"""``torch.func``: tensors inside its transforms, the stack of transforms, forward derivatives."""

import torch
from torch._functorch import predispatch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as temporarily_clear_interpreter_stack
from torch.autograd import forward_ad

from gpulab.compat.places import Place

is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
"""Whether a tensor stands for another one, inside ``vmap`` or ``grad``."""
unwrapped = torch._C._functorch.get_unwrapped
innermost_transform = torch._C._functorch.peek_interpreter_stack
"""The transform that is running; None outside of all."""

_LATER = hasattr(predispatch, "_unpack_dual_impl")
UNPACK_DUAL = Place(predispatch, "_unpack_dual_impl") if _LATER else Place(forward_ad, "unpack_dual")
"""PyTorch 2.11 unpacks in ``forward_ad`` itself, later ones in a function that functorch calls too."""
