"""Finds PyTorch's private names and Triton's internals in a file's syntax tree, whatever they were imported or assigned as."""

import ast
from collections.abc import Iterable, Iterator

PACKAGES = ("torch", "triton", "gpulab.compat")
"""A name with an underscore below gpulab.compat is PyTorch's again."""
INTERNAL = (
    "triton.backends",
    "triton.compiler",
    "triton.language.core",
    "triton.language.math",
    "triton.language.semantic",
    "triton.runtime.driver",
    "triton.runtime.interpreter",
    "triton.runtime.jit",
)
"""Triton's modules that its documentation does not name, without an underscore."""
DOCUMENTED = {
    "torch.cuda._sleep": "chapter 6 teaches it, and its exercises' hidden tests call it as learners do",
    "torch.cuda.memory._dump_snapshot": "PyTorch's documentation of memory snapshots",
    "torch.cuda.memory._record_memory_history": "PyTorch's documentation of memory snapshots",
    "torch.cuda.memory._snapshot": "PyTorch's documentation of memory snapshots",
    "torch.ops": "names of operators with a schema, which profiles and traces show",
}
"""Names that users write, and all below them, with the reason."""


def private_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each; a name in a string, or of an object that a call returned, is not seen."""
    if not any(package in source for package in PACKAGES):
        return
    tree = ast.parse(source)
    known = _known(tree)
    for node in ast.walk(tree):
        for name in filter(is_private, _imported(node).values()):
            yield node.lineno, name
    for node in _whole(tree):
        name = _resolved(node, known)
        if name and is_private(name):
            yield node.lineno, name


def is_private(name: str) -> bool:
    """Whether a dotted name is private, or internal, and no user's to write."""
    if not _is_below(name, PACKAGES) or _is_below(name, DOCUMENTED):
        return False
    hidden = (part.startswith("_") and not part.endswith("__") for part in name.split("."))
    return _is_below(name, INTERNAL) or any(hidden)


def _is_below(name: str, tops: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{top}.") for top in tops)


def _imported(node: ast.AST) -> dict[str, str]:
    """What an import statement imports, by the name that the file calls it."""
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name: alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {}


def _known(tree: ast.AST) -> dict[str, str]:
    """What the file's own names stand for: imports, and assignments of what is known."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        for name, full in _imported(node).items():
            top = name.partition(".")[0]
            known[top] = full if name == top else top  # `import torch.utils` binds torch
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if name := _resolved(node.value, known):
                known.setdefault(node.targets[0].id, name)
    return known


def _whole(node: ast.AST) -> Iterator[ast.AST]:
    """Chains of attributes, each once: of ``a.b.c`` not ``a.b`` again."""
    if isinstance(node, (ast.Attribute, ast.Name)):
        yield node
    while isinstance(node, ast.Attribute):
        node = node.value
    for child in ast.iter_child_nodes(node):
        yield from _whole(child)


def _resolved(node: ast.AST, known: dict[str, str]) -> str | None:
    """The full dotted name of a chain that begins with a known one."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in known:
        return None
    return ".".join([known[node.id], *reversed(parts)])
