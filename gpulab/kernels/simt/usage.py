"""Which of its array arguments a kernel reads, writes and uses in atomics."""

import ast
from collections.abc import Iterator

from gpulab.kernels.simt.intrinsics import DeviceFunction, Operation, meaning_of
from gpulab.kernels.simt.source import Source

ALL = frozenset(("read", "write", "atomic"))
_NO_ARRAY = ("shape", "size", "ndim", "strides", "dtype", "itemsize", "nbytes")


def usage(source: Source) -> dict[str, set[str]]:
    """By argument: some of ``read``, ``write``, ``atomic``.

    An array is followed under every name that it may go by: an assignment's, a row's, a part's of
    a tuple, a device function's parameter and its result.
    """
    return _Flow(source, {}).uses()


class _Flow:
    """For each name of one function the arguments whose memory it may stand for."""

    def __init__(self, source: Source, flows: dict) -> None:
        self._source, self._flows = source, flows
        self._names: dict[str, frozenset[str]] = {name: frozenset((name,)) for name in source.arguments}
        self._found: dict[str, set[str]] = {name: set() for name in source.arguments}
        self._looked = False
        self.parameters = source.arguments
        self.returned: frozenset[str] = frozenset()
        while self._passed_on():
            pass

    def uses(self) -> dict[str, set[str]]:
        if not self._looked:
            self._looked = True
            self._look()
        return self._found

    def _look(self) -> None:
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.Subscript):
                self._note(node.value, "write" if isinstance(node.ctx, ast.Store) else "read")
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
                self._note(node.target.value, "read")
            elif isinstance(node, (ast.For, ast.Compare)):
                for part in [node.iter] if isinstance(node, ast.For) else node.comparators:
                    self._note(part, "read")
            elif isinstance(node, ast.Call):
                self._call(node)

    def _note(self, node: ast.expr, *kinds: str) -> None:
        for name in self._roots(node):
            self._found[name].update(kinds)

    # ---- names

    def _passed_on(self) -> bool:
        """One round over all assignments; whether a name came to stand for more."""
        before = (dict(self._names), self.returned)
        for node in ast.walk(self._source.tree):
            for target, value in _given(node):
                self._give(target, self._roots(value))
            if isinstance(node, ast.Return) and node.value is not None:
                self.returned |= self._roots(node.value)
        return before != (self._names, self.returned)

    def _give(self, target: ast.expr, roots: frozenset[str]) -> None:
        for node in ast.walk(target):
            if roots and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._names[node.id] = self._names.get(node.id, frozenset()) | roots

    def _roots(self, node: ast.expr) -> frozenset[str]:
        """Arguments whose memory the value of ``node`` may be a part of."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, frozenset())
        if isinstance(node, ast.Subscript):
            return self._roots(node.value)
        if isinstance(node, ast.Attribute):
            return frozenset() if node.attr in _NO_ARRAY else self._roots(node.value)
        if isinstance(node, ast.Call):
            return self._result(node)
        parts = {ast.IfExp: ("body", "orelse"), ast.Tuple: ("elts",), ast.BoolOp: ("values",)}.get(type(node), ())
        found = [getattr(node, part) for part in parts]
        every = [sub for part in found for sub in (part if isinstance(part, list) else [part])]
        return frozenset().union(*map(self._roots, every))

    # ---- calls

    def _call(self, node: ast.Call) -> None:
        called = self._meaning(node.func)
        if isinstance(called, DeviceFunction):
            inner = self._inner(called)
            uses = None if inner is None else inner.uses()
            for name, argument in _given_by(inner, node):
                self._note(argument, *(ALL if uses is None else uses.get(name, ())))
        elif isinstance(called, Operation) and node.args:
            self._note(node.args[0], *called.touches)

    def _result(self, node: ast.Call) -> frozenset[str]:
        called = self._meaning(node.func)
        if isinstance(called, Operation):
            return frozenset()
        inner = self._inner(called) if isinstance(called, DeviceFunction) else None
        given = _given_by(inner, node)
        return frozenset().union(*(self._roots(a) for name, a in given if inner is None or name in inner.returned))

    def _inner(self, called: DeviceFunction) -> "_Flow | None":
        """The flow of a function that is called here; None while it is being looked at (it calls itself)."""
        if called not in self._flows:
            self._flows[called] = None
            self._flows[called] = _Flow(Source(called.function), self._flows)
        return self._flows[called]

    def _meaning(self, node: ast.expr):
        try:
            if isinstance(node, ast.Name):
                return meaning_of(self._source.meaning(node.id))
            if isinstance(node, ast.Attribute):
                return meaning_of(getattr(self._meaning(node.value), node.attr))
        except (KeyError, AttributeError):
            return None
        return None


def _given(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and the values that a statement gives them."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For):
        yield node.target, node.iter


def _given_by(inner: _Flow | None, node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Parameters of what is called, and the arguments that a call gives them."""
    names = inner.parameters if inner is not None else [""] * len(node.args)
    yield from zip(names, node.args)
    yield from ((keyword.arg, keyword.value) for keyword in node.keywords)
