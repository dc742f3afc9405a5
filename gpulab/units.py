"""Quantities as people read them."""


def format_bytes(count: int) -> str:
    """``count`` bytes in the largest binary unit that keeps the number at 1 or more.

    >>> format_bytes(0), format_bytes(1023), format_bytes(3 * 1024**2)
    ('0 B', '1023 B', '3.0 MiB')
    """
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if abs(value) < 1024:
            break
    return f"{value:.1f} {unit}"


def plural(count: int, noun: str) -> str:
    """``1 copy``, ``2 copies``, ``3 operations``."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
