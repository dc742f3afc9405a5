"""A loader as stages: what a batch takes in each, which of them limits, and when each batch is given.

``simulate`` plays PyTorch's ``DataLoader``; ``bounds`` says what each stage could do if it alone were slow, which is the most that the loader does;
``placed`` moves decoding and augmentation between a worker's core and the device; ``hit_rate`` is the page cache's.
"""

from gpulab.feeding.cache import hit_rate
from gpulab.feeding.pipeline import Turn, idle, rate, simulate
from gpulab.feeding.placement import PLACES, Work, placed
from gpulab.feeding.stages import Loader, Stages, bounds

__all__ = ["PLACES", "Loader", "Stages", "Turn", "Work", "bounds", "hit_rate", "idle", "placed", "rate", "simulate"]
