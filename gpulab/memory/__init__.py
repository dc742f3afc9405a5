"""Where the bytes go: what holds them while code runs (``track``), and what would (``plan``)."""

from gpulab.memory.categories import CATEGORIES as CATEGORIES
from gpulab.memory.categories import Bytes as Bytes
from gpulab.memory.job import OPTIMIZERS as OPTIMIZERS
from gpulab.memory.job import PRECISIONS as PRECISIONS
from gpulab.memory.job import Job as Job
from gpulab.memory.planner import Plan as Plan
from gpulab.memory.planner import plan as plan
from gpulab.memory.shapes import SHAPES as SHAPES
from gpulab.memory.shapes import Shape as Shape
from gpulab.memory.tracker import Held as Held
from gpulab.memory.tracker import track as track
