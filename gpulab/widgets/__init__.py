"""What a reader moves: anywidgets whose logic is JavaScript, alive with no kernel."""

from gpulab.widgets.coalescing_explorer import CoalescingExplorer
from gpulab.widgets.occupancy_explorer import OccupancyExplorer
from gpulab.widgets.quiz import Choice, Question, Quiz, right, wrong
from gpulab.widgets.roofline_explorer import RooflineExplorer
from gpulab.widgets.stride_explorer import StrideExplorer
from gpulab.widgets.tile_player import TilePlayer
from gpulab.widgets.timeline_player import TimelinePlayer
from gpulab.widgets.transfer_explorer import TransferExplorer
from gpulab.widgets.warp_stepper import WarpStepper

__all__ = [
    "Choice",
    "CoalescingExplorer",
    "OccupancyExplorer",
    "Question",
    "Quiz",
    "RooflineExplorer",
    "StrideExplorer",
    "TilePlayer",
    "TimelinePlayer",
    "TransferExplorer",
    "WarpStepper",
    "right",
    "wrong",
]
