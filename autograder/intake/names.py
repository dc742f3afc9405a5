"""What a cell defines and what it needs of other cells; magics and syntax errors are no obstacle."""

import ast
import builtins
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

PARSED_CHARACTERS, _READ_CHARACTERS = 50_000, 1_000_000
_BUILTINS = frozenset(dir(builtins))
_DEFINITION = re.compile(r"^(?:(?:async[ \t]+)?def|class)[ \t]+([^\W\d]\w*)", re.MULTILINE)
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\n]*")
_RUN_AS_CODE = ("time", "capture", "prun")
_LINE_MAGICS = (
    (re.compile(r"^([ \t]*\w[\w, \t]*=[ \t]*)[!%].*$", re.MULTILINE), r"\1None"),
    (re.compile(r"^([ \t]*)(?:[%!?].*|\S+\?{1,2})$", re.MULTILINE), r"\1pass"),
)
_OPAQUE_MAGIC = re.compile(r"^[ \t]*%(?:run|load|pylab)\b", re.MULTILINE)


@dataclass(frozen=True)
class Facts:
    """Of one cell. ``bound``: all names that it binds at its top level.

    ``held``: of these the ones that a def, a class, an import or an assignment of something else binds, each with whether
    it does more than a starter. ``wanted_at_once``: names of other cells that running the cell takes, ``wanted_later``: that
    calling its functions takes. ``opaque``: it may bind names that cannot be seen. ``parsed``: Python can read it.
    """

    bound: frozenset[str] = frozenset()
    held: tuple[tuple[str, bool], ...] = ()
    wanted_at_once: frozenset[str] = frozenset()
    wanted_later: frozenset[str] = frozenset()
    opaque: bool = False
    parsed: bool = True

    def is_written(self, name: str) -> bool:
        return any(written for one, written in self.held if one == name)

    def is_starter(self, name: str) -> bool:
        return any(one == name for one, _ in self.held) and not self.is_written(name)


def facts(source: str) -> Facts:
    """Never raises."""
    return _kept(source) if len(source) <= PARSED_CHARACTERS else _found(source)


@lru_cache(8192)
def _kept(source: str) -> Facts:
    return _found(source)


def _found(source: str) -> Facts:
    code = as_code(source)
    if len(code) <= PARSED_CHARACTERS:
        for read in (str, _without_magics):
            try:
                text = read(code)
                return _facts(ast.parse(text), symtable.symtable(text, "cell", "exec"), code)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
    found = _DEFINITION.findall(code[:_READ_CHARACTERS])
    return Facts(frozenset(found), tuple((name, True) for name in found), opaque=True, parsed=False)


def as_code(source: str) -> str:
    """Without the line of a cell's magic; nothing where that runs the cell otherwise, or not at all."""
    magic = _CELL_MAGIC.match(source)
    if magic is None:
        return source
    return source[magic.end() :] if magic[1] in _RUN_AS_CODE else ""


def _without_magics(code: str) -> str:
    for pattern, instead in _LINE_MAGICS:
        code = pattern.sub(instead, code)
    return code


def _facts(tree: ast.Module, table: symtable.SymbolTable, code: str) -> Facts:
    statements = list(_at_top(tree.body))
    top = table.get_symbols()
    bound = frozenset(s.get_name() for s in top if s.is_assigned() or s.is_imported() or s.is_namespace())
    at_once = {s.get_name() for s in top if s.is_referenced()} - bound - _BUILTINS
    at_once |= {name for name in _used_by_definitions(statements) if name not in _BUILTINS}
    later = {name for child in table.get_children() for name in _globals_of(child)} - bound - _BUILTINS
    star = any(isinstance(one, ast.ImportFrom) and one.names[0].name == "*" for one in statements)
    held = tuple((name, written) for one in statements for name, written in _held(one))
    return Facts(bound, held, frozenset(at_once), frozenset(later), star or bool(_OPAQUE_MAGIC.search(code)))


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    todo = [table]
    while todo:
        inner = todo.pop()
        yield from (s.get_name() for s in inner.get_symbols() if s.is_global() and s.is_referenced())
        todo += inner.get_children()


def _used_by_definitions(statements: list[ast.stmt]) -> Iterator[str]:
    """Of functions and classes what decorates them, their defaults and bases: used when they are defined, also by their own cell."""
    for one in statements:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [*one.decorator_list, *one.args.defaults, *filter(None, one.args.kw_defaults)]
        elif isinstance(one, ast.ClassDef):
            parts = [*one.decorator_list, *one.bases]
        else:
            continue
        defined_here = {name for other in statements for name, _ in _held(other)}
        used = (node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name))
        yield from (name for name in used if name not in defined_here)


def _held(statement: ast.stmt) -> Iterator[tuple[str, bool]]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name, not _is_starter(statement)
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name.partition(".")[0], True) for alias in statement.names)
    elif isinstance(statement, ast.Assign) and isinstance(
        statement.value, ast.Name | ast.Attribute | ast.Call | ast.Lambda
    ):
        used = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
        targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        yield from ((name, True) for name in targets if name not in used)


def _is_starter(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether it says nothing, or ends as the released starter does and returns nothing before."""
    said = [inner for inner in statement.body if not _says_nothing(inner)]
    if isinstance(statement, ast.ClassDef):
        methods = [inner for inner in said if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]
        return all(map(_is_starter, methods)) and len(methods) == len(said)
    if not said:
        return True
    ends = said[-1]
    if isinstance(ends, ast.Return) and (ends.value is None or _is_none(ends.value)):
        return len(said) == 1
    return _raises_not_implemented(ends) and not any(map(_leaves, said))


def _leaves(statement: ast.stmt) -> bool:
    """Whether it holds a return or a yield of the function itself."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return False


def _raises_not_implemented(statement: ast.stmt) -> bool:
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _says_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        value = statement.value
        is_print = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"
        return is_print or isinstance(value, ast.Constant)
    return isinstance(statement, ast.Pass)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _at_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body in order, and those under its ``if``, ``try`` and ``with``."""
    todo = list(reversed(body))
    while todo:
        yield (statement := todo.pop())
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            inner = [
                one for part in ("body", "orelse", "finalbody", "handlers") for one in getattr(statement, part, [])
            ]
            todo += reversed(inner)
