"""Tracked or planned bytes as a text table."""

from gpulab.memory.categories import CATEGORIES, Bytes
from gpulab.units import format_bytes


def table(peak: Bytes, now: Bytes, at: tuple[str, str]) -> str:
    """Kind by kind: bytes at the peak with their share, and bytes now. At most 80 columns."""
    lines = [f"{'':14}{'at the peak':>14}{'':8}{'now':>14}"]
    for kind in CATEGORIES:
        share = getattr(peak, kind) / peak.total if peak.total else 0
        lines.append(
            f"{kind:14}{format_bytes(getattr(peak, kind)):>14}{share:8.1%}{format_bytes(getattr(now, kind)):>14}"
        )
    lines.append(f"{'total':14}{format_bytes(peak.total):>14}{'':8}{format_bytes(now.total):>14}")
    operation, phase = at
    where = f"{phase}, after {operation}" if operation else f"{phase} the first operation"
    return "\n".join([*lines, f"peak: {where}"[:80]])
