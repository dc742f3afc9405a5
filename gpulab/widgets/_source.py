"""One anywidget source from several files, so that each stays small and none is built."""

import re
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import [^;]+? from "\./([\w.]+)";\n', re.MULTILINE)


def module(name: str) -> str:
    """The text of the ES module `name` with its relative imports inlined, each file once."""
    parts: dict[str, str] = {}
    _collect(name, parts)
    return "\n".join(parts.values())


def style(*names: str) -> str:
    """The text of the named style sheets, in order."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def _collect(name: str, parts: dict[str, str]) -> None:
    text = (HERE / name).read_text(encoding="utf-8")
    for needed in IMPORT.findall(text):
        if needed not in parts:
            _collect(needed, parts)
    parts[name] = IMPORT.sub("", text)
