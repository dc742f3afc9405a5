"""IPython's magics and shell commands in a cell, once IPython has made Python of them."""

import ast
import re

from autograder.flags import allowed

_PLAIN = re.compile(r"[\w ./=,:+-]*")
"""A command without redirections, pipes, substitutions or others behind it."""
_WORDS = re.compile(r"[\w .]*")
_FILTERED = re.compile(r"( \| *(head|tail|grep|wc)\b[\w .=:-]*)+$")
_PIP = re.compile(
    r"(list|show|freeze|check|--version|install)( -q| --quiet| -U| --upgrade| [A-Za-z][\w-]*([=<>~!]=[\w.]+)?)*"
)
"""pip told to install what has a name: neither a folder nor an address."""


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
    if name == "pip":
        return "" if _PIP.fullmatch(code.strip()) else None
    if name == "config":
        return "" if code.strip().startswith("InlineBackend.") else None
    if name in allowed.MAGICS:
        return "" if _WORDS.fullmatch(code) else None
    if name == "load_ext":
        return "" if code.strip() == "autoreload" else None
    code = _without_options(code)
    return code if name in allowed.TIMING and is_code(code) else None


def is_code(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _without_options(code: str) -> str:
    return re.sub(r"^(-[nrtcqpo]\s*\d*\s+)+", "", code)


def _tells_of_the_machine(command: str = "") -> bool:
    command = _FILTERED.sub("", command.strip())
    name, _, rest = command.partition(" ")
    return bool(_PIP.fullmatch(rest)) if name == "pip" else bool(_PLAIN.fullmatch(command)) and name in allowed.SHELL


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
