"""Traces of real machines that other people published, and what they say of them: see README.md."""

from pathlib import Path

PUBLIC = Path(__file__).parent
NAMES = tuple(sorted(file.name.removesuffix(".json.gz") for file in PUBLIC.glob("*.json.gz")))


def public(name: str) -> Path:
    """The file of this name. Raises KeyError that lists those there are."""
    if name not in NAMES:
        raise KeyError(f"no public trace is called {name!r}: choose one of {', '.join(NAMES)}")
    return PUBLIC / f"{name}.json.gz"
