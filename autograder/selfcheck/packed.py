"""Whether this is the marker that learners install, or the repository."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKED = Path(__file__).parent / "chapters"
"""Where a wheel carries what lies in ``exercises/`` of the repository, its notebooks as ``.ipynb``."""


def is_packed() -> bool:
    """True in the wheel ``gpulab-mark``, which has no rooms of authors and instructors."""
    return PACKED.exists()
