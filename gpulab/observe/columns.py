"""Text that fits a page: rows in columns, and sentences that go on in the next line."""

from textwrap import wrap

WIDTH = 80
_CODE_FROM, _CODE_TO = 20, 40
_GAP = "  "

Row = tuple[str, ...]


def columns(rows: list[Row], left: tuple[int, ...] = ()) -> list[str]:
    """Rows of text below one another, the first of them the heads, at most ``WIDTH`` characters wide.

    Column 0 numbers the row, column 1 is a line of code, cut to the room that it has. Columns that hold
    nothing are left out. A head of more than one word stands on more than one line; columns for which
    there is no room follow in further tables, by the row's number. Columns in ``left`` are flush left.
    """
    used = [i for i in range(2, len(rows[0])) if any(row[i] for row in rows[1:])]
    heads = _stacked(rows[0]) if _width(rows, [0, *used]) + _CODE_TO > WIDTH else [rows[0]]
    body = rows[1:]
    first, others = _fitting([*heads, *body], used)
    room = WIDTH - _width([*heads, *body], [0, *first]) - len(_GAP)
    body = [(row[0], _short(row[1], room), *row[2:]) for row in body]
    lines = _table(heads, body, [0, 1, *first], (1, *left))
    while others:
        shown, others = _fitting([*heads, *body], others, code=0)
        lines += _table(heads, [row for row in body if any(row[i] for i in shown)], [0, *shown], left)
    return lines


def sentence(text: str) -> list[str]:
    """A line of text, gone on below with an indent where it passes ``WIDTH`` characters."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False) or [text]


def _widest(rows: list[Row], i: int) -> int:
    return max(len(row[i]) for row in rows)


def _width(rows: list[Row], used: list[int]) -> int:
    return sum(_widest(rows, i) for i in used) + len(_GAP) * (len(used) - 1)


def _stacked(head: Row) -> list[Row]:
    words = [cell.split() for cell in head]
    height = max(map(len, words))
    return list(zip(*([""] * (height - len(own)) + own for own in words), strict=True))


def _fitting(rows: list[Row], used: list[int], code: int | None = None) -> tuple[list[int], list[int]]:
    """The columns that leave room for the code, and those after them."""
    code = min(_widest(rows, 1), _CODE_FROM) if code is None else code
    fits = [n for n in range(1, len(used) + 1) if _width(rows, [0, *used[:n]]) + len(_GAP) + code <= WIDTH]
    count = max(fits, default=1)
    return used[:count], used[count:]


def _table(heads: list[Row], body: list[Row], used: list[int], left: tuple[int, ...]) -> list[str]:
    heads = [head for head in heads if any(head[i] for i in used)]
    widths = {i: _widest([*heads, *body], i) for i in used}
    lines = [
        _GAP.join(row[i].ljust(n) if i in left else row[i].rjust(n) for i, n in widths.items())
        for row in [*heads, *body]
    ]
    lines = [line.rstrip() for line in lines]
    return [*lines[: len(heads)], "-" * max(map(len, lines)), *lines[len(heads) :]]


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
