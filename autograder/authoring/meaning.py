"""Digests of files; that of a Python source is not changed by comments, layout, or another docstring."""

import ast
import hashlib
from functools import cache
from pathlib import Path

DIGITS = 16
"""Hexadecimal digits of a digest."""


@cache  # several gates ask for the key of one exercise and of all its attempts
def digest_of(*sources: str) -> str:
    return _sha256("\n".join(map(_meaning, sources)).encode())


def digest(path: Path) -> str:
    """Of a Python file what it means, of another its bytes."""
    return digest_of(path.read_text()) if path.suffix == ".py" else _sha256(path.read_bytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def _meaning(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.dump(tree)
