"""Converts NumPy's numbers and subclasses of Python's types to plain Python values."""

import numpy as np


def plain(value: object) -> object:
    """``value`` with floats, tuples, lists and dictionaries of any class, and NumPy's integers, as Python's own.

    What is of another class is left, and of that only what Python brings crosses to the referee.
    """
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(plain(item) for item in value)
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value
