"""What a cell defines, and what it needs of other cells; magics and syntax errors are no obstacle."""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import lru_cache

_PARSED_CHARACTERS = 200_000
_DEFINITION = re.compile(
    r"^(?:(?:async[ \t]+)?def|class)[ \t]+([^\W\d]\w*)|^([^\W\d]\w*)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE
)
_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|\S+\?{1,2})$", re.MULTILINE)


def defined(source: str) -> set[str]:
    """The names that a cell binds at its top level."""
    if (tree := _tree(source)) is None:
        return {one or other for one, other in _DEFINITION.findall(source)}
    return {name for statement in _at_top(tree.body) for name in _bound(statement)}


def needed(source: str) -> set[str]:
    """The names that a cell uses and binds nowhere: those of other cells. Empty where it cannot be parsed."""
    if (tree := _tree(source)) is None:
        return set()
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {name for node in nodes for name in _bound(node)} | {
        node.arg for node in nodes if isinstance(node, ast.arg)
    }
    return used - bound - set(dir(builtins))


def is_written(source: str, name: str) -> bool:
    """Whether a cell that defines ``name`` does more than a starter: pass, ``...``, raise NotImplementedError."""
    if (tree := _tree(source)) is None:
        return name in defined(source)
    found = [statement for statement in _at_top(tree.body) if name in _bound(statement)]
    return any(not _is_starter(statement) for statement in found)


def _is_starter(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        said = [inner for inner in statement.body if not _says_nothing(inner)]
        return not said or isinstance(said[0], ast.Raise) and "NotImplemented" in ast.unparse(said[0])
    if isinstance(statement, ast.ClassDef):
        methods = [inner for inner in statement.body if isinstance(inner, ast.FunctionDef)]
        return any(map(_is_starter, methods)) or not methods and all(map(_says_nothing, statement.body))
    return False


def _says_nothing(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Pass) or isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _at_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, and those under its ``if``, ``try``, ``with`` and loops."""
    todo = list(body)
    while todo:
        yield (statement := todo.pop())
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for inner in ("body", "orelse", "finalbody", "handlers"):
                todo += getattr(statement, inner, [])


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


@lru_cache(4096)
def _tree(source: str) -> ast.Module | None:
    """None where Python cannot parse the cell, or should not."""
    if len(source) > _PARSED_CHARACTERS:
        return None
    for text in (source, _MAGIC.sub(r"\1pass", source)):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None
