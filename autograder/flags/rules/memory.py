"""A tensor's memory written through NumPy in a function, where no operation is on record."""

import ast

from autograder.flags import allowed
from autograder.flags.rules.rule import Rule


class Memory(Rule):
    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            self._written(node, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._written(node, node.target)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg == "out":
                self._written(node, keyword.value)
        if isinstance(node.func, ast.Attribute) and node.func.attr in allowed.WRITES:
            self._written(node, *node.args[:2], node.func.value)
        if isinstance(node.func, ast.Name) and node.func.id in self.names.functions:
            self._written(node, *node.args)  # nobody follows it there
        if any(path.startswith("numpy.") for path in self.paths(node.func)):
            self._written(node, *node.args[2:])  # where a result goes
        self.generic_visit(node)

    def _written(self, node: ast.AST, *targets: ast.AST) -> None:
        if self.hidden and any(map(self.names.is_memory, targets)):
            self.flag(node, "system")
