"""What a reader moves: anywidgets whose logic is JavaScript, alive with no kernel."""

from gpulab.widgets.allocator_blocks import AllocatorBlocks
from gpulab.widgets.batch_slots import BatchSlots
from gpulab.widgets.block_table import BlockTable
from gpulab.widgets.bucket_timeline import BucketTimeline
from gpulab.widgets.checkpoint_save import CheckpointSave
from gpulab.widgets.checkpoint_segments import CheckpointSegments
from gpulab.widgets.coalescing_explorer import CoalescingExplorer
from gpulab.widgets.feeding_pipeline import FeedingPipeline
from gpulab.widgets.float_formats import FloatFormats
from gpulab.widgets.fsdp_timeline import FsdpTimeline
from gpulab.widgets.gang_scheduler import GangScheduler
from gpulab.widgets.graph_stepper import GraphStepper
from gpulab.widgets.loss_scale import LossScale
from gpulab.widgets.lr_schedule import LrSchedule
from gpulab.widgets.memory_bar import MemoryBar
from gpulab.widgets.mesh_painter import MeshPainter
from gpulab.widgets.cold_start import ColdStart
from gpulab.widgets.episode_player import EpisodePlayer
from gpulab.widgets.interview_cards import InterviewCards
from gpulab.widgets.occupancy_explorer import OccupancyExplorer
from gpulab.widgets.place_phases import PlacePhases
from gpulab.widgets.prefill_decode import PrefillDecode
from gpulab.widgets.quiz import Choice, Question, Quiz, right, wrong
from gpulab.widgets.rank_dashboard import RankDashboard
from gpulab.widgets.ring_stepper import RingStepper
from gpulab.widgets.roofline_explorer import RooflineExplorer
from gpulab.widgets.run_diagnosis import RunDiagnosis
from gpulab.widgets.schedule_editor import ScheduleEditor
from gpulab.widgets.sharding_memory import ShardingMemory
from gpulab.widgets.stride_explorer import StrideExplorer
from gpulab.widgets.tensor_split import TensorSplit
from gpulab.widgets.tile_player import TilePlayer
from gpulab.widgets.timeline_player import TimelinePlayer
from gpulab.widgets.token_budget import TokenBudget
from gpulab.widgets.trace_viewer import TraceViewer
from gpulab.widgets.transfer_explorer import TransferExplorer
from gpulab.widgets.triage_board import TriageBoard
from gpulab.widgets.warm_pool import WarmPool
from gpulab.widgets.warp_stepper import WarpStepper

__all__ = [
    "AllocatorBlocks",
    "BatchSlots",
    "BlockTable",
    "BucketTimeline",
    "CheckpointSave",
    "CheckpointSegments",
    "Choice",
    "CoalescingExplorer",
    "FeedingPipeline",
    "FloatFormats",
    "FsdpTimeline",
    "GangScheduler",
    "GraphStepper",
    "InterviewCards",
    "LossScale",
    "LrSchedule",
    "MemoryBar",
    "MeshPainter",
    "ColdStart",
    "EpisodePlayer",
    "OccupancyExplorer",
    "PlacePhases",
    "PrefillDecode",
    "Question",
    "Quiz",
    "RankDashboard",
    "RingStepper",
    "RooflineExplorer",
    "RunDiagnosis",
    "ScheduleEditor",
    "ShardingMemory",
    "StrideExplorer",
    "TensorSplit",
    "TilePlayer",
    "TimelinePlayer",
    "TokenBudget",
    "TraceViewer",
    "TransferExplorer",
    "TriageBoard",
    "WarmPool",
    "WarpStepper",
    "right",
    "wrong",
]
