"""One anywidget source from several files, so that each stays small and none is built."""

import re
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import [^;]+? from "(\.[\w./]+)";\n', re.MULTILINE)


def module(name: str) -> str:
    """The text of an ES module with its relative imports inlined, each file once.

    Args:
        name: a widget's folder, for its ``widget.js``, or a file below this folder.
    """
    parts: dict[Path, str] = {}
    _collect(HERE / (name if name.endswith(".js") else f"{name}/widget.js"), parts)
    return "\n".join(parts.values())


def style(*widgets: str) -> str:
    """The text of what all widgets share and of the widgets' own style sheets: a widget's, after those that it builds on."""
    files = HERE / "shared" / "base.css", *(HERE / widget / "widget.css" for widget in widgets)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def pairs(options: dict[str, object]) -> list[list]:
    """A dictionary for a trait, in its order: a notebook's file sorts keys, and a select would show them so."""
    return [[name, value] for name, value in options.items()]


def _collect(file: Path, parts: dict[Path, str]) -> None:
    text = file.read_text(encoding="utf-8")
    for address in IMPORT.findall(text):
        needed = (file.parent / address).resolve()
        if needed not in parts:
            _collect(needed, parts)
    parts[file.resolve()] = IMPORT.sub("", text)
