"""Text of editors from before UTF-8: Western Europe's, and those of Japan, China, Taiwan and Korea, told apart by what is common in each.

In the latter a sign is two bytes, and the second may look like a letter, a digit or a backslash: read as Western Europe's,
a comment may swallow the line below it.
"""

import re
from collections.abc import Callable, Iterator

WESTERN = "Windows-1252"
_MOST = 0.9
"""Of the signs that are not ASCII: how many have to be common ones."""
_RUN = re.compile(rb"[\x80-\xff]+")
_RARE = re.compile(rb"[\x81\x83\x86-\x89\x8b\x8d\x8f\x90\x95\x98\x9b\x9d]")
"""What Windows-1252 has no sign for, or one that code hardly holds."""


def of_old_editors(raw: bytes) -> tuple[str, str]:
    """The text, and the name of its encoding; where two were possible that of the other, too."""
    found = list(_possible(raw))
    if not found:
        return raw.decode("cp1252", "replace"), WESTERN
    text, name = found[0]
    others = [other for read, other in found[1:] if _ascii(read) != _ascii(text)]
    return text, f"{name} (it may be {' or '.join(others)})" if others else name


def _possible(raw: bytes) -> Iterator[tuple[str, str]]:
    if _is_western(raw):
        yield raw.decode("cp1252", "replace"), WESTERN
    for name, codec, is_common in _EASTERN:
        try:
            text = raw.decode(codec)
        except UnicodeDecodeError:
            continue
        signs = [sign.encode(codec) for sign in text if not sign.isascii()]
        if sum(map(is_common, signs)) >= _MOST * len(signs):
            yield text, name


def _is_western(raw: bytes) -> bool:
    """Whether letters with marks, quotes and dashes stand among ASCII, most of them alone."""
    if _RARE.search(raw):
        return False
    runs = list(map(len, _RUN.findall(raw)))
    return runs.count(1) * 2 >= sum(runs) and max(runs, default=0) <= 3


def _ascii(text: str) -> str:
    return "".join(sign for sign in text if sign.isascii())


def _between(*ranges: tuple[int, int], second: int = 0x40) -> Callable[[bytes], bool]:
    """Whether a sign is two bytes, the first in one of the ranges, the second no less than ``second``."""

    def is_common(sign: bytes) -> bool:
        return len(sign) == 2 and sign[1] >= second and any(low <= sign[0] <= high for low, high in ranges)

    return is_common


_EASTERN = (
    ("EUC-KR", "cp949", _between((0xA1, 0xA3), (0xB0, 0xC8), second=0xA1)),  # marks, syllables
    ("GB 18030", "gb18030", _between((0xA1, 0xA3), (0xB0, 0xD7), second=0xA1)),  # marks, the first level
    ("EUC-JP", "euc_jp", _between((0xA1, 0xA5), (0xB0, 0xCF), second=0xA1)),  # marks, kana, the first level
    ("Shift JIS", "cp932", _between((0x81, 0x83), (0x88, 0x97))),
    ("Big5", "cp950", _between((0xA1, 0xA3), (0xA4, 0xC6))),
)
"""Where bytes fit several, all of them read ASCII alike, but for the last two."""
