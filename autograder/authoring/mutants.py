"""Mutants of a solution: each differs from it in one place, as a slip of the pen would."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
_SHIFTED |= {"in": "not in", "not in": "in"}
_WORDS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_CONDITIONAL = (ast.If, ast.While, ast.IfExp, ast.Assert)
_DEFINES = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Mutant:
    """``source`` is the solution with ``line`` (several, joined, where the place has several) become ``becomes``."""

    line: str
    becomes: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Each statement deleted, condition negated, comparison shifted, integer off by one, keyword dropped.

    Docstrings, definitions and annotations stay. No two mutants have the same source.
    """
    seen = {_meaning(source)}
    for start, stop, text in _edits(source):
        mutated = source[:start] + text + source[stop:]
        meaning = _meaning(mutated)
        if meaning not in seen:
            seen.add(meaning)
            yield Mutant(_lines(source, start, stop), _lines(mutated, start, start + len(text)), mutated)


def _meaning(source: str) -> str:
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return ""


def _lines(source: str, start: int, stop: int) -> str:
    """The whole lines around a place, their indentation folded."""
    first = source.rfind("\n", 0, start) + 1
    last = source.find("\n", stop)
    return " ".join(source[first : last if last >= 0 else len(source)].split())


def _edits(source: str) -> Iterator[tuple[int, int, str]]:
    """(start, stop, text) in characters of ``source``, in order of the places."""
    tree, places = ast.parse(source), Places(source)
    left_out = {id(part) for node in ast.walk(tree) for part in _left_out(node)}
    for node in sorted(_walk(tree, left_out), key=lambda node: (node.lineno, node.col_offset)):
        yield from _of_statement(node, places)
        yield from _of_condition(node, places)
        yield from _of_comparison(node, places, source)
        yield from _of_integer(node, places)
        yield from _of_keywords(node, places, source)


def _left_out(node: ast.AST) -> Iterator[ast.AST]:
    if (
        isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module))
        and ast.get_docstring(node, clean=False) is not None
    ):
        yield node.body[0]
    if isinstance(node, ast.arg) and node.annotation:
        yield node.annotation
    if isinstance(node, ast.FunctionDef) and node.returns:
        yield node.returns


def _walk(node: ast.AST, left_out: set[int]) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if id(child) in left_out:
            continue
        if hasattr(child, "lineno"):
            yield child
        yield from _walk(child, left_out)


class Places:
    """Where nodes lie in the text, in characters."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = source.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def of(self, node: ast.AST) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.AST) -> str:
        start, stop = self.of(node)
        return self._source[start:stop]

    def _at(self, line: int, byte: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:byte].decode())


def _of_statement(node: ast.AST, places: Places) -> Iterator[tuple[int, int, str]]:
    if isinstance(node, ast.stmt) and not isinstance(node, _DEFINES):
        yield *places.of(node), "pass"


def _of_condition(node: ast.AST, places: Places) -> Iterator[tuple[int, int, str]]:
    tests = [node.test] if isinstance(node, _CONDITIONAL) else []
    tests += [test for part in getattr(node, "generators", ()) for test in part.ifs]
    for test in tests:
        yield *places.of(test), f"(not ({places.text(test)}))"
    if isinstance(node, ast.BoolOp):
        word = "or" if isinstance(node.op, ast.And) else "and"
        (_, stop), (start, _) = places.of(node.values[0]), places.of(node.values[1])
        yield from ((stop, start, f" {word} "),) if len(node.values) == 2 else ()


def _of_comparison(node: ast.AST, places: Places, source: str) -> Iterator[tuple[int, int, str]]:
    if not isinstance(node, ast.Compare):
        return
    left = node.left
    for operator, right in zip(node.ops, node.comparators):
        word = _WORDS[type(operator)]
        (_, stop), (start, _) = places.of(left), places.of(right)
        at = source.find(word.split()[0], stop, start)
        if at >= 0:
            end = source.find(word.split()[-1], at, start) + len(word.split()[-1])
            yield at, end, _SHIFTED[word]
        left = right


def _of_integer(node: ast.AST, places: Places) -> Iterator[tuple[int, int, str]]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield *places.of(node), str(node.value + 1)
        yield *places.of(node), str(node.value - 1) if node.value else "(-1)"
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield *places.of(node), str(not node.value)


def _of_keywords(node: ast.AST, places: Places, source: str) -> Iterator[tuple[int, int, str]]:
    """Each keyword argument dropped, with the comma before it or after it."""
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        start, stop = places.of(keyword)
        before = source.rfind(",", 0, start)
        if before >= 0 and not source[before + 1 : start].strip():
            yield before, stop, ""
        else:
            after = len(source[stop:]) - len(source[stop:].lstrip(", \n"))
            yield start, stop + after, ""
