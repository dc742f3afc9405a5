"""What learners chose, as text that neither a terminal nor a page acts on. Imports nothing: commands print before they import for seconds."""

import re

_ACTED_ON = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Not line breaks and tabs."""


def printable(name: str) -> str:
    """Text that a learner chose, on one line: what a terminal or a page would act on is spelt out; 200 characters at most."""
    return "".join(c if c.isprintable() else _spelt_out(c) for c in name[:200])[:200]


def visible(text: str) -> str:
    """Text of many lines: control characters, bidirectional marks and broken Unicode are spelt out, as ``\\x1b`` and ``\\u202e``."""
    return _ACTED_ON.sub(lambda found: _spelt_out(found[0]), text)


def on_terminal(text: str) -> str:
    """Text of many lines that does not go back over what stands in a line."""
    return visible(text).replace("\r", r"\r")


def say(text: str) -> None:
    """Print what may hold a learner's words."""
    print(on_terminal(text), flush=True)


def _spelt_out(character: str) -> str:
    return character.encode("unicode_escape").decode()
