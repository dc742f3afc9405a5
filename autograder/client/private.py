"""Files that are nobody else's."""

import os
from pathlib import Path


def write_for_oneself(path: Path, text: str) -> None:
    """A file that its owner alone can read, also where there was one that others could."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        path.chmod(0o600)
        file.write(text)
