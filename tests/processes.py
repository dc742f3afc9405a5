"""Processes that a test may have left behind."""

import psutil


def children() -> set[psutil.Process]:
    """All below this one, but for a browser's: it starts and ends its own as it likes, while other tests run."""
    return {child for child in psutil.Process().children(recursive=True) if not _is_a_browsers(child)}


def _is_a_browsers(process: psutil.Process) -> bool:
    try:
        return "chrom" in process.name()
    except psutil.NoSuchProcess:
        return True
