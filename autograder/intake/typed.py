"""Code as phones and word processors type it, or copied out of a console: mended where Python can read it only then."""

import re
from collections.abc import Iterator
from itertools import product

from nbformat import NotebookNode

from autograder.intake.names import PARSED_CHARACTERS, facts

_SINGLE, _DOUBLE = "\u2018\u2019\u201a\u201b\u2032\uff07", "\u201c\u201d\u201e\u201f\u2033\uff02\u00ab\u00bb"
_INSTEAD = (
    dict.fromkeys("\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))), " ")
    | dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad", "")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2028\u2029\u0085", "\n")
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys(_SINGLE, "'")
    | dict.fromkeys(_DOUBLE, '"')
    | {"\u2026": "...", "\u3001": ",", "\u3002": "."}
)
"""What Python reads for a sign that looks like it. Letters and digits in full width are read as ordinary ones in any case."""
_ALL = str.maketrans(_INSTEAD)
_PIECE = re.compile(
    r"(?P<kept>\#[^\n]*|\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\Z)|\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)"
    r"|\'(?:\\.|[^\\\n\'])*\'?|\"(?:\\.|[^\\\n\"])*\"?)"
    rf"|(?P<opens>[{_SINGLE}{_DOUBLE}])(?P<inner>[^\n{_SINGLE}{_DOUBLE}'\"]*)(?P<closes>[{_SINGLE}{_DOUBLE}])"
    rf"|(?P<code>[^\#'\"{_SINGLE}{_DOUBLE}]+|.)",
    re.DOTALL,
)
_PROMPT = re.compile(r"^[ \t]*(?:>>>|In ?\[[ \d]*\]:|\.\.\.(?::|(?=[ \t\n])|$))[ \t]?", re.MULTILINE)
_OUTPUT = re.compile(r"^[ \t]*Out ?\[\d+\]:.*\n?", re.MULTILINE)


def mend(cells: list[NotebookNode]) -> list[str]:
    """Mends those cells of code that Python cannot read as they are and can then; the sentence on them, or none."""
    mended = []
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "code" and (source := readable(cell.source)) != cell.source:
            cell.source = source
            mended.append(str(number))
    if not mended:
        return []
    shown = ", ".join(mended[:9]) + (f" and {len(mended) - 9} more" if len(mended) > 9 else "")
    return [
        f"Python could not read what was typed (cells from the top: {shown}): spaces, quotes, dashes or prompts that are no "
        "code, or a cell that is indented as a whole. They were read as what they stand for. That costs nothing."
    ]


def readable(source: str) -> str:
    """The source with as little of it mended as lets Python read it; as it is where nothing does."""
    if facts(source).parsed or len(source) > PARSED_CHARACTERS:
        return source
    return next((text for text in _mended(source) if facts(text).parsed), source)


def _mended(source: str) -> Iterator[str]:
    """The least first. Signs inside strings and comments stay where that is enough."""
    seen = {source}
    for signs in (_as_it_is, _in_code, _everywhere):
        known = signs(source)
        for prompts, indent in product((_as_it_is, _without_prompts, _typed_alone), (_as_it_is, _dedented)):
            if (text := indent(prompts(known))) not in seen:
                seen.add(text)
                yield text


def _as_it_is(source: str) -> str:
    return source


def _everywhere(source: str) -> str:
    return source.translate(_ALL)


def _in_code(source: str) -> str:
    """Outside comments and strings; of a string between typographic quotes those alone."""
    return _PIECE.sub(_piece, source)


def _piece(found: re.Match) -> str:
    if found["kept"] is not None:
        return found["kept"]
    if found["opens"] is not None:
        return f"{_INSTEAD[found['opens']]}{found['inner']}{_INSTEAD[found['closes']]}"
    return found["code"].translate(_ALL)


def _without_prompts(source: str) -> str:
    return _PROMPT.sub("", _OUTPUT.sub("", source))


def _typed_alone(source: str) -> str:
    """Without prompts, and without the lines that have none: what the console had answered."""
    typed = "".join(_PROMPT.sub("", line) for line in source.splitlines(keepends=True) if _PROMPT.match(line))
    return typed or source


def _dedented(source: str) -> str:
    """Without the indentation of its first line."""
    first = re.match(r"(?:[ \t]*\n)*([ \t]*)", source)
    return re.sub(rf"^{first[1]}", "", source, flags=re.MULTILINE) if first else source
