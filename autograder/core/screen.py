"""What a learner's terminal and browser can show. Imports nothing of the course's."""

import os
import shutil
import sys


def columns() -> int:
    """Of text in the terminal; 100 at most."""
    return min(shutil.get_terminal_size().columns, 100)


def has_screen() -> bool:
    """Whether a browser can open: one in the terminal would take it over."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
