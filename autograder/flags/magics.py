"""IPython's magics and shell commands in a cell, once IPython has made Python of them."""

import ast
import re

from autograder.flags import allowed

_PLAIN = re.compile(r"[\w ./=,:+-]*")
"""A command without redirections, pipes, substitutions or others behind it."""


def said_by(call: ast.Call) -> tuple[str | None, str] | None:
    """What a call of ``get_ipython()`` runs: the Python in it ("" for none; None where it is something else), and its name.

    None where the call is no magic.
    """
    said = _constants(call)
    if said is None:
        return None
    method, arguments = said
    if method in ("system", "getoutput"):
        return ("" if _tells_of_the_machine(*arguments[:1]) else None), f"!{' '.join(arguments)[:60]}"
    if method not in ("run_line_magic", "run_cell_magic") or len(arguments) < 2:
        return None, method
    mark = "%%" if method == "run_cell_magic" else "%"
    return _python(arguments), f"{mark}{arguments[0]}"


def _python(arguments: list[str]) -> str | None:
    name, code = arguments[0], arguments[-1]
    if name in ("pip", "conda"):
        return "" if _PLAIN.fullmatch(code) else None
    if name in allowed.MAGICS:
        return ""
    if name == "load_ext":
        return "" if code.strip() == "autoreload" else None
    return _parsed(_without_options(code)) if name in allowed.TIMING else None


def _parsed(code: str) -> str | None:
    try:
        ast.parse(code)
    except SyntaxError:
        return None
    return code


def _without_options(code: str) -> str:
    return re.sub(r"^(-[nrtcqpo]\s*\d*\s+)+", "", code)


def _tells_of_the_machine(command: str = "") -> bool:
    return bool(_PLAIN.fullmatch(command)) and command.split()[:1] != [] and command.split()[0] in allowed.SHELL


def _constants(call: ast.Call) -> tuple[str, list[str]] | None:
    """Method and texts of ``get_ipython().method("a", "b")``, or None."""
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Call):
        return None
    maker = function.value.func
    if not isinstance(maker, ast.Name) or maker.id != "get_ipython" or call.keywords:
        return None
    values = [argument.value if isinstance(argument, ast.Constant) else None for argument in call.args]
    return (function.attr, values) if all(isinstance(value, str) for value in values) else None
