"""What :mod:`faulthandler` writes of a stack, read back."""

import linecache
import re

from gpulab.observe.lines import is_learners_file
from gpulab.observe.records import SourceLine

_FRAME = re.compile(r'File "(.*)", line (\d+) in (\S+)')


def learners_line_in(stack: str) -> SourceLine | None:
    """The innermost line that no library owns."""
    for file, number, function in _FRAME.findall(stack):
        if is_learners_file(file):
            return SourceLine(file, int(number), linecache.getline(file, int(number)).strip(), function)
    return None
