"""The schedulers by name."""

from gpulab.serving.plan import Scheduler
from gpulab.serving.schedulers.chunked import Chunked
from gpulab.serving.schedulers.continuous import Continuous
from gpulab.serving.schedulers.static import Static

SCHEDULERS: dict[str, type[Scheduler]] = {"static": Static, "continuous": Continuous, "chunked": Chunked}
