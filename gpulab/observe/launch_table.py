"""Kernels written in Python, as lines of text: what each source line of theirs cost."""

import math
from typing import TYPE_CHECKING

from gpulab.observe.columns import columns, sentence
from gpulab.observe.launches import SECTOR_BYTES, WARP, ArrayUse, Fault, Launch, LineCounts, ThreadRace
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation


def launch_lines(seen: "Observation") -> list[str]:
    """For each launch a headline, a row for each line of the kernel, and what is wrong with it."""
    return [text for launch in seen.launches for text in ("", *_lines(launch))]


def _lines(launch: Launch) -> list[str]:
    below = [
        *(f"  {_use(use)}" for use in launch.arrays),
        *(f"  {_fault(fault)}" for fault in launch.faults),
        *(f"  {_race(race)}" for race in launch.races),
        *(f"  note: {text}" for text in launch.warnings),
    ]
    return [
        *sentence(f"{launch.name}{_shape(launch)}: {_summary(launch)}"),
        *columns([_HEAD, *(_row(line) for line in launch.lines)]),
        *(line for text in below for line in sentence(text)),
    ]


def _shape(launch: Launch) -> str:
    def short(extents):
        trimmed = extents if extents[2] > 1 else extents[:2] if extents[1] > 1 else extents[:1]
        return str(trimmed[0]) if len(trimmed) == 1 else str(tuple(trimmed))

    if launch.language == "triton":
        warps = "" if launch.num_warps is None else f" of {plural(launch.num_warps, 'warp')}"
        return f"[{short(launch.grid)}], {plural(math.prod(launch.grid), 'program')}{warps}"
    return f"[{short(launch.grid)}, {short(launch.block)}]"


def _summary(launch: Launch) -> str:
    asked = launch.total("read_bytes") + launch.total("written_bytes")
    parts = [f"{format_bytes(asked)} of global memory asked for"]
    if launch.sectors:
        parts.append(f"{format_bytes(SECTOR_BYTES * launch.sectors)} moved ({launch.memory_efficiency:.0%} of it used)")
    if launch.total("instructions"):
        parts.append(f"warps {launch.warp_efficiency:.0%} full")
    if launch.occupancy is not None:
        parts.append(_room(launch))
    return ", ".join(parts)


def _room(launch: Launch) -> str:
    """What a multiprocessor could hold, and what the whole grid has: the card's number of them is not known here."""
    held = launch.occupancy
    x, y, z = launch.grid
    a, b, c = launch.block
    warps = x * y * z * -(-a * b * c // WARP)
    registers = "" if held.registers_known else ", registers not counted"
    return (
        f"{warps} {'warp' if warps == 1 else 'warps'} in the grid, "
        f"a multiprocessor has room for {held.warps} of at most {held.max_warps} (limit: {held.limit}{registers})"
    )


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
    "atomic_conflicts": "atomics in turn",
    "barriers": "barriers",
    "flops": "flops",
}
_HEAD = ("line", "code", "lanes", *_NAMES.values())


def _row(counts: LineCounts) -> tuple[str, ...]:
    full = counts.active_lanes / (WARP * counts.instructions) if counts.instructions else None
    numbers = [str(getattr(counts, name) or "") for name in _NAMES]
    return (str(counts.line.number), counts.line.text, "" if full is None else f"{full:.0%}", *numbers)


def _use(use: ArrayUse) -> str:
    ways = (
        ("read", use.read_bytes, use.distinct_read_bytes),
        ("written", use.written_bytes, use.distinct_written_bytes),
    )
    done = [
        f"{_share(distinct, use.bytes)} {verb} {_times(asked, distinct)}" for verb, asked, distinct in ways if asked
    ]
    if use.atomics:
        done.append(f"{use.atomics} atomics, {use.busiest_atomics} of them on one element")
    return f"{use.array} of {format_bytes(use.bytes)}: {', '.join(done) or 'not used'}"


def _share(distinct: int, whole: int) -> str:
    return "all of it" if distinct == whole else format_bytes(distinct)


def _times(asked: int, distinct: int) -> str:
    return "once" if asked == distinct else f"{asked / distinct:.3g} times"


def _fault(fault: Fault) -> str:
    where = f"{fault.array}{list(fault.index)} " if fault.array else ""
    times = f", {fault.count} times" if fault.count > 1 else ""
    return f"{fault.kind}: {where}by {_thread(fault.thread)}{times}: {fault.line}"


def _race(race: ThreadRace) -> str:
    inside_one = race.first_thread == race.second_thread
    second = "another thread of that program" if inside_one else _thread(race.second_thread)
    return (
        f"race in {race.space} memory, {race.kind}: {race.array}{list(race.index)} by {_thread(race.first_thread)} "
        f"({race.first_line}) and by {second} ({race.second_line})"
    )


def _thread(numbers: tuple[int, ...]) -> str:
    if len(numbers) != 6:
        return f"program {tuple(numbers)}"
    return f"thread {tuple(numbers[3:])} of block {tuple(numbers[:3])}"
