"""What is a module, by the files of the libraries: none is imported for it."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from autograder.flags import allowed


def through_modules(path: str) -> str:
    """``os.fork`` of ``tempfile.os.fork``: a module that another one has imported is itself, by whatever way it is reached."""
    parts = path.split(".")
    for at in range(len(parts) - 1, 0, -1):
        if parts[at] in allowed.REACHED_THROUGH_OTHERS and not is_module(".".join(parts[: at + 1])):
            return ".".join(parts[at:])
    return path


@cache
def is_module(path: str) -> bool:
    """Of a library, or of Python itself."""
    root, *rest = path.split(".")
    folder = _folder(root)
    if folder is None:
        return not rest and _spec(root) is not None
    inner = folder.joinpath(*rest)
    return not rest or inner.is_dir() or inner.with_suffix(".py").is_file()


@cache
def _folder(root: str) -> Path | None:
    """A package's; None of a module that is one file, or built in."""
    spec = _spec(root)
    return Path(spec.origin).parent if spec and spec.submodule_search_locations and spec.origin else None


def _spec(root: str):
    try:
        return find_spec(root)
    except (ImportError, ValueError):
        return None
