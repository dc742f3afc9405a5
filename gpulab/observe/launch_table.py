"""Kernels written in Python, as lines of text: what each source line of theirs cost."""

from typing import TYPE_CHECKING

from gpulab.observe.launches import SECTOR_BYTES, WARP, ArrayUse, Fault, Launch, LineCounts, ThreadRace
from gpulab.units import format_bytes

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation

_CODE_WIDTH = 44


def launch_lines(seen: "Observation") -> list[str]:
    """For each launch a headline, a row for each line of the kernel, and what is wrong with it."""
    return [text for launch in seen.launches for text in ("", *_lines(launch))]


def _lines(launch: Launch) -> list[str]:
    return [
        f"{launch.name}{_shape(launch)}: {_summary(launch)}",
        *_columns([_HEAD, *(_row(line) for line in launch.lines)]),
        *(f"  {_use(use)}" for use in launch.arrays),
        *(f"  {_fault(fault)}" for fault in launch.faults),
        *(f"  {_race(race)}" for race in launch.races),
        *(f"  note: {text}" for text in launch.warnings),
    ]


def _shape(launch: Launch) -> str:
    def short(extents):
        trimmed = extents if extents[2] > 1 else extents[:2] if extents[1] > 1 else extents[:1]
        return str(trimmed[0]) if len(trimmed) == 1 else str(tuple(trimmed))

    if launch.language == "triton":
        return f"[{short(launch.grid)}]"
    return f"[{short(launch.grid)}, {short(launch.block)}]"


def _summary(launch: Launch) -> str:
    asked = launch.total("read_bytes") + launch.total("written_bytes")
    parts = [f"{format_bytes(asked)} of global memory asked for"]
    if launch.sectors:
        parts.append(f"{format_bytes(SECTOR_BYTES * launch.sectors)} moved ({launch.memory_efficiency:.0%} of it used)")
    if launch.total("instructions"):
        parts.append(f"warps {launch.warp_efficiency:.0%} full")
    if launch.occupancy is not None:
        held = launch.occupancy
        parts.append(f"{held.warps} of {held.max_warps} warps resident (limit: {held.limit})")
    return ", ".join(parts)


_NAMES = {
    "instructions": "warp instr.",
    "divergent_branches": "diverge",
    "loads": "loads",
    "stores": "stores",
    "masked": "masked",
    "read_sectors": "sectors in",
    "written_sectors": "sectors out",
    "misaligned_requests": "misaligned",
    "shared_requests": "shared req.",
    "bank_conflicts": "conflicts",
    "atomics": "atomics",
    "barriers": "barriers",
    "flops": "flops",
}
_HEAD = ("line", "code", "lanes", *_NAMES.values())


def _row(counts: LineCounts) -> tuple[str, ...]:
    full = counts.active_lanes / (WARP * counts.instructions) if counts.instructions else None
    text = counts.line.text
    code = text if len(text) <= _CODE_WIDTH else text[: _CODE_WIDTH - 3] + "..."
    numbers = [str(getattr(counts, name) or "") for name in _NAMES]
    return (str(counts.line.number), code, "" if full is None else f"{full:.0%}", *numbers)


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in used}
    lines = ["  ".join(_padded(row[i], widths[i], left=i == 1) for i in used).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return lines


def _use(use: ArrayUse) -> str:
    ways = (("read", use.read_bytes, use.distinct_read_bytes), ("written", use.written_bytes, use.distinct_written_bytes))
    done = [f"{_share(distinct, use.bytes)} {verb} {_times(asked, distinct)}" for verb, asked, distinct in ways if asked]
    return f"{use.array} of {format_bytes(use.bytes)}: {', '.join(done) or 'not used'}"


def _share(distinct: int, whole: int) -> str:
    return "all of it" if distinct == whole else format_bytes(distinct)


def _times(asked: int, distinct: int) -> str:
    return "once" if asked == distinct else f"{asked / distinct:.3g} times"


def _padded(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def _fault(fault: Fault) -> str:
    where = f"{fault.array}{list(fault.index)} " if fault.array else ""
    times = f", {fault.count} times" if fault.count > 1 else ""
    return f"{fault.kind}: {where}by {_thread(fault.thread)}{times}: {fault.line}"


def _race(race: ThreadRace) -> str:
    return (
        f"race in {race.space} memory, {race.kind}: {race.array}{list(race.index)} by {_thread(race.first_thread)} "
        f"({race.first_line}) and by {_thread(race.second_thread)} ({race.second_line})"
    )


def _thread(numbers: tuple[int, ...]) -> str:
    if len(numbers) != 6:
        return f"program {tuple(numbers)}"
    return f"thread {tuple(numbers[3:])} of block {tuple(numbers[:3])}"

