"""What of ``torch.cuda``, ``torch.accelerator`` and ``torch.distributed`` works on the virtual card, by name.

Each name has a call that is made: for the book's page, and for the test that no name is forgotten.
"""

from gpulab.names.calls import REFUSED, WORKS, outcome
from gpulab.names.distributed import DISTRIBUTED, in_ranks
from gpulab.names.one_card import ACCELERATOR, CUDA

__all__ = ["ACCELERATOR", "CUDA", "DISTRIBUTED", "REFUSED", "WORKS", "in_ranks", "outcome"]
