"""The text of a file, in whatever encoding an editor wrote it."""

import codecs

from autograder.intake.old_encodings import of_old_editors

_MARKS = (
    (codecs.BOM_UTF8, "utf-8", ""),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
"""Byte order marks; that of UTF-16 is also the beginning of UTF-32's."""


def decoded(raw: bytes) -> tuple[str, str]:
    """The text, and the name of its encoding where that is not UTF-8. Never raises.

    Half a surrogate pair, which is JSON but no text, becomes a question mark.
    """
    for mark, encoding, name in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, "replace"), name
    if encoding := _wide(raw):
        return raw.decode(encoding, "replace"), "UTF-16"
    try:
        return raw.decode(), ""
    except UnicodeDecodeError:
        return _without_pairs(raw)


def _wide(raw: bytes) -> str:
    """UTF-16 without a mark: every other byte of its first characters is zero."""
    first = raw[:64]
    if len(first) < 4 or len(first) % 2:
        return ""
    if not any(first[1::2]) and all(first[::2]):
        return "utf-16-le"
    return "utf-16-be" if not any(first[::2]) and all(first[1::2]) else ""


def _without_pairs(raw: bytes) -> tuple[str, str]:
    try:
        return raw.decode("utf-8", "surrogatepass").encode("utf-8", "replace").decode(), ""
    except UnicodeDecodeError:
        return of_old_editors(raw)
