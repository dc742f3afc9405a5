"""What a reader moves: anywidgets whose logic is JavaScript, alive with no kernel."""

from gpulab.widgets.quiz import Choice, Question, Quiz, right, wrong
from gpulab.widgets.stride_explorer import StrideExplorer

__all__ = ["Choice", "Question", "Quiz", "StrideExplorer", "right", "wrong"]
