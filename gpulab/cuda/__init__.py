"""The CUDA runtime: a real GPU, or a virtual one on any machine.

>>> import gpulab.cuda
>>> runtime = gpulab.cuda.use("virtual:H100")  # doctest: +SKIP

From then on ordinary PyTorch code with ``device="cuda"`` runs. On the virtual card values
are real and computed on the CPU; time, streams, copies, memory and races are modelled, and
the same code gives the same Observation every time.

What the model leaves out, so that nobody grades it: the time of Python and of work on host
tensors (only ``time.sleep`` costs); caches; the algorithms and workspaces of cuBLAS and cuDNN;
more than one kernel for one PyTorch operation; the depth of a launch queue; autograd's choice
of streams (an operation of a backward pass follows all that used its tensors); the private memory pool of a CUDA graph, and races
inside one; several cards. What has no model at all (``torch.compile``, memory pools, allocator settings, sparse tensors:
:mod:`gpulab.cuda.coverage`) raises :class:`NotModelled`. ``Tensor.data_ptr()`` is the address
of host memory, and what follows it outside PyTorch is not seen.
"""

from gpulab.cards.cards import CARDS, Card
from gpulab.cuda.errors import DeviceIsOff, GhostHasNoValues, MachineTooSmall, NotModelled
from gpulab.cuda.runtime import Runtime, current, use

__all__ = [
    "CARDS",
    "Card",
    "DeviceIsOff",
    "GhostHasNoValues",
    "MachineTooSmall",
    "NotModelled",
    "Runtime",
    "current",
    "use",
]
