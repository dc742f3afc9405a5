"""What one kernel written in Python did: plain records, counted by warp or by program.

``gpulab.kernels`` produces them; a table, a figure or a verdict reads them.
"""

from dataclasses import dataclass, field, fields

from gpulab.observe.records import SourceLine

SECTOR_BYTES = 32
"""What global memory moves at least: NVIDIA, CUDA C++ Programming Guide, Global Memory."""

WARP = 32
"""Threads of a warp."""


@dataclass(frozen=True)
class LineCounts:
    """What all warps (Numba) or programs (Triton) of a launch did in one line of the kernel.

    instructions: statements and operations issued, once for a warp. active_lanes: lanes that took
    part, summed over them; divided by 32 x instructions it is the warp's execution efficiency.
    divergent_branches: warps whose lanes disagreed at a branch of this line.

    Global memory: loads and stores count elements that lanes asked for; read_bytes and
    written_bytes are their bytes; requests counts warp requests; read_sectors and
    written_sectors the 32-byte sectors that those touch. misaligned_requests: warp requests that
    touch more sectors than their bytes need because they begin inside one.

    Shared memory: shared_requests of warps, and bank_conflicts: further passes they take.

    atomics: atomic operations of lanes. One instruction of a warp is one request; its elements
    count as loaded and as stored, since each is read and written. atomic_conflicts: operations that
    wait for another lane of their warp at the same element (global or shared), since those go one
    after another (CUDA C++ Programming Guide, SIMT Architecture); in shared memory each is a
    further pass too.

    barriers: block barriers passed in this line.
    masked: Triton lanes that a mask switched off. flops: floating-point operations of lanes.
    """

    line: SourceLine
    instructions: int = 0
    active_lanes: int = 0
    divergent_branches: int = 0
    loads: int = 0
    stores: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    requests: int = 0
    read_sectors: int = 0
    written_sectors: int = 0
    misaligned_requests: int = 0
    shared_requests: int = 0
    bank_conflicts: int = 0
    atomics: int = 0
    atomic_conflicts: int = 0
    barriers: int = 0
    masked: int = 0
    flops: int = 0


@dataclass(frozen=True)
class ArrayUse:
    """What a launch did to one array that it was given.

    ``array``: the parameter's name. ``bytes``: of the array. read_bytes and written_bytes: what
    lanes asked for inside it; distinct_read_bytes and distinct_written_bytes: the same, each byte
    once. Equal when nothing was read, or written, twice. Atomics count as both.

    atomics: atomic operations of lanes on it; busiest_atomics: those on the element that had most of
    them. No two of these happen at once, whatever the grid: it is what contention costs.

    busiest_stores: stores into it, atomics too, of the thread that made most of them; 0 for Triton, whose
    programs have no threads to tell apart.
    """

    array: str
    bytes: int
    read_bytes: int = 0
    distinct_read_bytes: int = 0
    written_bytes: int = 0
    distinct_written_bytes: int = 0
    atomics: int = 0
    busiest_atomics: int = 0
    busiest_stores: int = 0


@dataclass(frozen=True)
class ThreadRace:
    """Two threads used the same element, one of them to write, and no barrier or atomic orders them.

    ``space``: ``shared`` or ``global``. ``kind``: as in :class:`gpulab.observe.records.Race`.
    ``array`` is the name in the kernel, ``index`` the element. A thread is
    ``(block x, y, z, thread x, y, z)``; for Triton ``(program x, y, z)``, the same twice where two threads
    of one program race: two lanes of a store, or a load of what another place of a tile stored.
    """

    space: str
    kind: str
    array: str
    index: tuple[int, ...]
    first_thread: tuple[int, ...]
    first_line: SourceLine
    second_thread: tuple[int, ...]
    second_line: SourceLine


@dataclass(frozen=True)
class Fault:
    """What a kernel did that a GPU does not forgive, or does not tell.

    ``kind``: ``out of bounds``, ``misaligned address``, ``uninitialised read``, ``barrier not reached by
    all``; for Triton ``masked lane used``: a load without ``other`` in ``line``, first switched off at
    ``index``, whose lane was stored or decided something.
    ``count``: how often on this line; ``thread`` and ``index``: of the first time.
    """

    kind: str
    array: str
    index: tuple[int, ...]
    thread: tuple[int, ...]
    line: SourceLine
    count: int = 1


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps of one kind that a multiprocessor has room for at once, however many there are.

    ``limit``: what binds: ``warps``, ``blocks``, ``shared memory`` or ``registers``.
    ``registers_known``: False where registers were left out, since only the compiler knows them.
    """

    blocks: int
    warps: int
    max_warps: int
    limit: str
    registers_known: bool = True

    @property
    def share(self) -> float:
        """Warps that there is room for over those that fit at most, 0 to 1."""
        return self.warps / self.max_warps


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel written in Python.

    ``language``: ``numba`` or ``triton``. ``grid`` and ``block``: three numbers each (x, y, z); a
    Triton program has a block of ``(1, 1, 1)``, whatever its threads: ``num_warps`` warps of them,
    None for Numba. ``line``: where it was launched.
    """

    name: str
    language: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    line: SourceLine | None
    lines: tuple[LineCounts, ...]
    races: tuple[ThreadRace, ...] = ()
    faults: tuple[Fault, ...] = ()
    occupancy: Occupancy | None = None
    warnings: tuple[str, ...] = field(default=())
    arrays: tuple[ArrayUse, ...] = ()
    num_warps: int | None = None

    def array(self, name: str) -> ArrayUse:
        """What it did to the array of that name. Raises KeyError when it was given none."""
        for use in self.arrays:
            if use.array == name:
                return use
        raise KeyError(f"{self.name} has no array {name!r}: {[use.array for use in self.arrays]}")

    def total(self, count: str) -> int:
        """One of :class:`LineCounts`' numbers, summed over the kernel's lines."""
        return sum(getattr(line, count) for line in self.lines)

    @property
    def sectors(self) -> int:
        """32-byte sectors of global memory, read and written."""
        return self.total("read_sectors") + self.total("written_sectors")

    @property
    def moved_bytes(self) -> tuple[int, int]:
        """Bytes read from and written to global memory: of whole sectors, or of a Triton kernel's elements."""
        if self.language == "triton":
            return sum(use.read_bytes for use in self.arrays), sum(use.written_bytes for use in self.arrays)
        return SECTOR_BYTES * self.total("read_sectors"), SECTOR_BYTES * self.total("written_sectors")

    @property
    def memory_efficiency(self) -> float:
        """Bytes that lanes asked for over the bytes of the sectors that moved; 1.0 when none did."""
        moved = SECTOR_BYTES * self.sectors
        return (self.total("read_bytes") + self.total("written_bytes")) / moved if moved else 1.0

    @property
    def warp_efficiency(self) -> float:
        """Active lanes over 32 for every instruction that a warp issued; 1.0 when none was."""
        issued = self.total("instructions")
        return self.total("active_lanes") / (WARP * issued) if issued else 1.0

    @classmethod
    def from_dict(cls, data: dict) -> "Launch":
        """The inverse of ``dataclasses.asdict``. Raises KeyError or TypeError on anything else."""
        occupancy = data["occupancy"]
        return cls(
            **{
                **data,
                "grid": tuple(data["grid"]),
                "block": tuple(data["block"]),
                "line": _line(data["line"]),
                "lines": tuple(_record(LineCounts, line) for line in data["lines"]),
                "races": tuple(_record(ThreadRace, race) for race in data["races"]),
                "faults": tuple(_record(Fault, fault) for fault in data["faults"]),
                "occupancy": None if occupancy is None else Occupancy(**occupancy),
                "warnings": tuple(data["warnings"]),
                "arrays": tuple(_record(ArrayUse, use) for use in data["arrays"]),
            }
        )


def _line(data: dict | None) -> SourceLine | None:
    return None if data is None else SourceLine(**data)


def _record(kind: type, data: dict):
    known = {f.name for f in fields(kind)}
    lines = {name: _line(data[name]) for name in known if name.endswith("line")}
    sequences = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return kind(**{**data, **sequences, **lines})
