"""What a reader moves: anywidgets whose logic is JavaScript, alive with no kernel."""

from gpulab.widgets.coalescing_explorer import CoalescingExplorer
from gpulab.widgets.float_formats import FloatFormats
from gpulab.widgets.loss_scale import LossScale
from gpulab.widgets.memory_bar import MemoryBar
from gpulab.widgets.episode_player import EpisodePlayer
from gpulab.widgets.occupancy_explorer import OccupancyExplorer
from gpulab.widgets.quiz import Choice, Question, Quiz, right, wrong
from gpulab.widgets.ring_stepper import RingStepper
from gpulab.widgets.roofline_explorer import RooflineExplorer
from gpulab.widgets.stride_explorer import StrideExplorer
from gpulab.widgets.tile_player import TilePlayer
from gpulab.widgets.timeline_player import TimelinePlayer
from gpulab.widgets.transfer_explorer import TransferExplorer
from gpulab.widgets.warp_stepper import WarpStepper

__all__ = [
    "Choice",
    "CoalescingExplorer",
    "FloatFormats",
    "LossScale",
    "MemoryBar",
    "EpisodePlayer",
    "OccupancyExplorer",
    "Question",
    "Quiz",
    "RingStepper",
    "RooflineExplorer",
    "StrideExplorer",
    "TilePlayer",
    "TimelinePlayer",
    "TransferExplorer",
    "WarpStepper",
    "right",
    "wrong",
]
