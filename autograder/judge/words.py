"""Words in a row, as a judge's sentences name them."""

from collections.abc import Sequence

MOST_NAMED = 3
"""Of what is alike; a learner reads how many more there are."""


def joined(words: Sequence[str], last: str) -> str:
    """By commas, and before the last word by ``last``: " and ", ", or "."""
    return last.join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
