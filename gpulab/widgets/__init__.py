"""What a reader moves: anywidgets whose logic is JavaScript, alive with no kernel."""

from gpulab.widgets.quiz import Choice, Question, Quiz, right, wrong
from gpulab.widgets.stride_explorer import StrideExplorer
from gpulab.widgets.timeline_player import TimelinePlayer
from gpulab.widgets.transfer_explorer import TransferExplorer

__all__ = ["Choice", "Question", "Quiz", "StrideExplorer", "TimelinePlayer", "TransferExplorer", "right", "wrong"]
