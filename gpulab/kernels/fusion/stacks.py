"""The learner's line in what PyTorch's compiler keeps of a stack."""

import linecache
import re
import traceback
from collections.abc import Iterable

from gpulab.observe.lines import is_learners_file
from gpulab.observe.records import SourceLine

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<number>\d+), in (?P<function>\S+)')

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_\d+$")


def line_of_node(node) -> SourceLine | None:
    """The innermost line of the learner's behind a node of an FX graph."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return _innermost((file, int(number), function) for file, number, function in frames)


def line_of_stack(stack: traceback.StackSummary | None) -> SourceLine | None:
    """The innermost line of the learner's in a stack summary."""
    return _innermost((frame.filename, frame.lineno, frame.name) for frame in stack or ())


def function_name(name: str) -> str:
    """Without what Dynamo calls the rest of a function after a graph break."""
    return _RESUMED.sub(r"\g<function>", name)


def _innermost(frames: Iterable[tuple[str, int, str]]) -> SourceLine | None:
    for file, number, function in reversed(list(frames)):
        if is_learners_file(file):
            return SourceLine(file, number, linecache.getline(file, number).strip(), function_name(function))
    return None
