"""Classes that pass for a tensor or a number, and methods by which an object answers a judge's comparisons itself."""

import ast

from autograder.flags import allowed
from autograder.flags.names import Function, constant_name, looks_up
from autograder.flags.rules.rule import Rule


class Classes(Rule):
    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        enum = any(ast.unparse(base).endswith(("Enum", "Flag")) for base in node.bases)
        for base in node.bases if not enum else ():
            for name in self.paths(base) or {self.names.renamed.get(ast.unparse(base), ast.unparse(base))}:
                if _is_computed(base) or _stands_in(name):
                    self.flag(node, "stand_in", f"class {node.name}({name})")
        self.generic_visit(node)

    def visit_function(self, node: Function) -> None:
        self._defined(node, getattr(node, "name", ""))
        super().visit_function(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._defined(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store) and node.attr != "__class__":
            self._defined(node, node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if looks_up(node, ("type",), 3):
            self.flag(node, "stand_in")
        if looks_up(node, ("setattr",)):
            self._defined(node, constant_name(node))
        self.generic_visit(node)

    def _defined(self, node: ast.AST, name: str) -> None:
        if name in allowed.DUNDERS_DEFINED:
            self.flag(node, "stand_in", name)


def _stands_in(base: str) -> bool:
    return base.rpartition(".")[2] in allowed.STAND_INS or base.startswith(allowed.NUMBERS)


def _is_computed(base: ast.AST) -> bool:
    """A base that is neither a name nor ``Generic[T]``, nor a named tuple's."""
    if isinstance(base, ast.Call):
        return not ast.unparse(base.func).endswith("namedtuple")
    return not isinstance(base.value if isinstance(base, ast.Subscript) else base, ast.Name | ast.Attribute)
