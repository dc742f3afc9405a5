"""Whether this is the marker that learners install, or the repository."""

from pathlib import Path

SITE = Path(__file__).parent / "site.txt"
"""Where a wheel carries the address of the published book."""


def is_packed() -> bool:
    """True in the wheel ``gpulab-mark``, which has no rooms of authors and instructors."""
    return SITE.exists()
