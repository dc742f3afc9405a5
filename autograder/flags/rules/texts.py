"""Code that is run from text, and texts that name what nobody is to read."""

import ast
import re

from autograder.flags import allowed, magics
from autograder.flags.names import looks_up
from autograder.flags.rules.rule import Read, Rule, is_docstring, is_private

_NAME = re.compile(r"_[A-Za-z]\w*")
_FORMATS_A_PRIVATE_NAME = re.compile(r"\{[^{}]*\._")
_SPELLS_AN_ADDRESS = re.compile(r"array_(interface|struct)")


class Texts(Rule):
    def __init__(self, read: Read) -> None:
        super().__init__(read)
        self._texts: dict[int, str | None] = {}

    def _text(self, node: ast.AST) -> str | None:
        """Of a constant, or of constants that are added up."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            return None
        if id(node) not in self._texts:
            left, right = self._text(node.left), self._text(node.right)
            self._texts[id(node)] = None if left is None or right is None else left + right
        return self._texts[id(node)]

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in allowed.DYNAMIC and not any(node.id in names for names in self.hidden):
            self.flag(node, "dynamic")

    def visit_Call(self, node: ast.Call) -> None:
        if magics.said_by(node):
            return
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if (keyword.arg, value) in allowed.UNSAFE_OPTIONS:
                self.flag(node, "dynamic", f"{keyword.arg}={value}")
        for path in self.paths(node.func):
            most = allowed.LOADERS.get(path)
            if most and (len(node.args) > most or any(keyword.arg is None for keyword in node.keywords)):
                self.flag(node, "dynamic")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and self._text(node.func.value) == "":
            pieces = node.args[0].elts if node.args and isinstance(node.args[0], ast.List | ast.Tuple) else []
            if pieces and all(self._text(piece) is not None for piece in pieces):
                self.flag(node, "dynamic")
        own = looks_up(node, ("getattr", "hasattr", "setattr")) and self.is_self(node.args[0])
        of_own = isinstance(node.func, ast.Attribute) and self.is_self(node.func.value)
        for part in (node.func, *node.args[2 if own else of_own :], *node.keywords):
            self.visit(part)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "globals":  # benchmark.Timer(..., globals=globals())
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit(node.left)
        for part in node.comparators:  # "x" in globals()
            if ast.unparse(part) not in ("globals()", "locals()"):
                self.visit(part)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part)
            elif _SPELLS_AN_ADDRESS.search(str(part.value)):
                self.flag(node, "dynamic")

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        text = text if isinstance(text, str) else ""
        if text.startswith(("/proc", "/dev/", "/sys/", "module://")) and not text.startswith(allowed.OPEN_TO_ALL):
            self.flag(node, "system", text)
        if _is_hidden(text):
            self.flag(node, "dynamic")

    def visit_Expr(self, node: ast.Expr) -> None:
        if not is_docstring(node):
            self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Names are put together from pieces where nobody is to read them."""
        whole = self._text(node)
        begins = next((text for text in map(self._text, (node.left, node.right)) if text is not None), "")
        if whole is not None and _is_hidden(whole) or begins.startswith("_") and not self._is_a_rule(node):
            self.flag(node, "dynamic")
        self.generic_visit(node)

    def _is_a_rule(self, node: ast.BinOp) -> bool:
        """``"_" * 40``; and ``name + "_count"``, which ends in what begins so."""
        if isinstance(node.op, ast.Mult):
            return isinstance(node.right, ast.Constant) and isinstance(node.right.value, int) and node.right.value > 3
        return self._text(node.left) is None


def _is_hidden(text: str) -> bool:
    """Whether it names what an answer does not need to name."""
    if (
        "__" in text
        and not re.search(r"\s", text)
        and text not in allowed.TEXTS
        or _FORMATS_A_PRIVATE_NAME.search(text)
        or _SPELLS_AN_ADDRESS.search(text)
    ):
        return True
    return text in allowed.MODULES_NAMED or bool(_NAME.fullmatch(text)) and is_private(text)
