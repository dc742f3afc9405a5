"""Imports what kernels of a chapter would import, for a process that forks them."""

import importlib

from autograder.core.layout import run_modules


def preload(chapter: str) -> None:
    """Its ``run.py`` files, and what they name as ``PRELOAD``. What fails here fails in the kernel too, and is reported there."""
    try:
        for name in run_modules(chapter):
            for module in getattr(importlib.import_module(name), "PRELOAD", ()):
                importlib.import_module(module)
    except Exception:
        pass
