"""Numbers among a command's options."""

import argparse
from collections.abc import Callable


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """The number that an option's text is."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text}: a number from {least}{f' to {most}' if most else ''} is needed")
        return int(text)

    return number
