"""Which of its array arguments a kernel reads, writes and uses in atomics."""

import ast

from gpulab.kernels.simt.intrinsics import DeviceFunction, Operation, meaning_of
from gpulab.kernels.simt.source import Source


def usage(source: Source, depth: int = 0) -> dict[str, set[str]]:
    """By argument: some of ``read``, ``write``, ``atomic``.

    A name that is given another name, or that goes where this cannot follow, counts as all three.
    """
    found: dict[str, set[str]] = {name: set() for name in source.arguments}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            _note(found, node.value.id, "write" if isinstance(node.ctx, ast.Store) else "read")
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            if isinstance(node.target.value, ast.Name):
                _note(found, node.target.value.id, "read")
        elif isinstance(node, ast.Call):
            _calls(source, node, found, depth)
        elif isinstance(node, ast.Assign) and any(isinstance(n, ast.Name) for n in _parts(node.value)):
            for part in _parts(node.value):
                if isinstance(part, ast.Name):
                    _note(found, part.id, "read", "write", "atomic")
    return found


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Tuple):
        return node.elts
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]


def _note(found: dict, name: str, *kinds: str) -> None:
    if name in found:
        found[name].update(kinds)


def _calls(source: Source, node: ast.Call, found: dict, depth: int) -> None:
    names = [(i, a.id) for i, a in enumerate(node.args) if isinstance(a, ast.Name) and a.id in found]
    if not names:
        return
    called = _meaning(source, node.func)
    if isinstance(called, DeviceFunction) and depth < 8:
        inner = Source(called.function)
        uses = usage(inner, depth + 1)
        for position, name in names:
            if position < len(inner.arguments):
                _note(found, name, *uses[inner.arguments[position]])
    elif isinstance(called, Operation) and called.name.startswith("atomic."):
        _note(found, names[0][1], "atomic")


def _meaning(source: Source, node: ast.expr):
    try:
        if isinstance(node, ast.Name):
            return meaning_of(source.meaning(node.id))
        if isinstance(node, ast.Attribute):
            return meaning_of(getattr(_meaning(source, node.value), node.attr))
    except (KeyError, AttributeError):
        return None
    return None
