"""The Python beside a notebook, which its cells can import: what is read of it, and what cannot be."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from autograder.flags import allowed

MOST_READ = 1024**2
"""Bytes of one file."""
_COMPILED = frozenset([".pyc", ".pyd", ".so", ".pth", ".egg", ".whl"])
_LIBRARIES = allowed.LIBRARIES | allowed.STANDARD | sys.stdlib_module_names | {"autograder", "exercises"}


@dataclass(frozen=True)
class Beside:
    """``sources``: Python files, by relative path; ``compiled``: relative paths of what Python imports and nobody can read."""

    sources: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    compiled: tuple[str, ...] = ()

    @property
    def modules(self) -> frozenset[str]:
        """By which names they are imported, and mean no library."""
        return frozenset(map(_module, self.sources)) - _LIBRARIES

    @property
    def namesakes(self) -> list[str]:
        """Files that are imported in the place of a library."""
        return [path for path in (*self.sources, *self.compiled) if _module(path) in _LIBRARIES]


def python_beside(folder: Path) -> Beside:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    sources = {
        str(path.relative_to(folder)): path.read_bytes()[: MOST_READ + 1] for path in files if path.suffix == ".py"
    }
    return Beside(sources, tuple(str(path.relative_to(folder)) for path in files if path.suffix in _COMPILED))


def _module(path: str) -> str:
    return path.partition("/")[0].partition(".")[0]
