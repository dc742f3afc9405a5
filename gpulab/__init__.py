"""From Tensors to Tokens: what a learner imports.

``observe`` records what the machine did while a block ran; ``shares_storage`` says whether
two tensors are views of the same bytes; ``cuda.use()`` chooses the CUDA runtime.
Submodules: ``cuda``, ``widgets``, ``plots``.
"""

from gpulab import cuda
from gpulab.observe import Observation, observe, shares_storage, storage_bytes

__all__ = ["Observation", "cuda", "observe", "shares_storage", "storage_bytes"]
__version__ = "0.1.0"
