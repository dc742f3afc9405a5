"""TinyVLA, the course's running example: a small policy that reads a camera and a sentence and moves an arm.

``Config`` and ``SIZES`` say how large it is, ``TinyVLA`` is the policy, ``Worlds`` is what it acts in,
``load`` reads the trained checkpoint, ``success`` counts episodes that end at the named object.
"""

from gpulab.model.checkpoint import load as load
from gpulab.model.config import SIZES as SIZES
from gpulab.model.config import Config as Config
from gpulab.model.episodes import success as success
from gpulab.model.policy import Cache as Cache
from gpulab.model.policy import TinyVLA as TinyVLA
from gpulab.model.world import Worlds as Worlds
