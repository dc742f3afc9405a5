"""Digests of Python sources that comments, docstrings and layout do not change."""

import ast
import hashlib
from functools import cache
from pathlib import Path

DIGITS = 16
"""Hexadecimal digits of a digest."""


@cache  # several gates ask for the key of one exercise and of all its attempts
def digest_of(*sources: str) -> str:
    return hashlib.sha256("\n".join(map(_meaning, sources)).encode()).hexdigest()[:DIGITS]


def digest(path: Path) -> str:
    return digest_of(path.read_text())


def _meaning(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.dump(tree)
