"""A file that is written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replaced(path: Path, survives_power_failure: bool = False) -> Iterator[TextIO]:
    """Text in UTF-8 to write, which takes the place of ``path`` where the block ends without an exception.

    A process that is killed leaves the file of before; the new one has the permissions of that. Line ends are written as they are.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "w", encoding="utf-8", newline="") as file:
            yield file
            if survives_power_failure:
                file.flush()
                os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
