"""From Tensors to Tokens: what a learner imports.

``observe`` records what the machine did while a block ran; ``shares_storage`` says whether
two tensors are views of the same bytes; ``profile`` says where a step's time went; ``cuda.use()`` chooses the
CUDA runtime.
Submodules: ``cuda``, ``widgets``, ``plots``.
"""

from gpulab import cuda
from gpulab.observe import Observation, observe, shares_storage, storage_bytes
from gpulab.traces.run import profile

__all__ = ["Observation", "cuda", "observe", "profile", "shares_storage", "storage_bytes"]
__version__ = "0.1.0"
