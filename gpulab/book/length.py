"""How long a page takes to read, estimated: no reader was timed."""

import re
from pathlib import Path

WORDS_A_MINUTE = 200
"""Of prose."""
LINES_A_MINUTE = 30
"""Of code that the page shows."""
_BLOCK = re.compile(r"^```(.*?)\n(.*?)^```$", re.M | re.S)


def words(page: Path) -> int:
    """Of the prose of a MyST page: its head and its blocks of code are left out."""
    return len(_BLOCK.sub("", _body(page)).split())


def lines(page: Path) -> int:
    """Of code that a reader sees: empty lines, options and hidden input are left out."""
    shown = [
        code
        for kind, code in _BLOCK.findall(_body(page))
        if "code-cell" in kind and not re.search(r":tags:.*(remove|hide)-", code)
    ]
    return sum(bool(line.strip()) and not line.startswith(":") for code in shown for line in code.splitlines())


def minutes(page: Path) -> float:
    return words(page) / WORDS_A_MINUTE + lines(page) / LINES_A_MINUTE


def _body(page: Path) -> str:
    return page.read_text("utf-8").split("---\n", 2)[2]
