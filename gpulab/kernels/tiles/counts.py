"""What a launch did, line by line and array by array, while it runs."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from gpulab.kernels.simt.source import Places
from gpulab.kernels.tiles.memory import Access, AddressSpace, Region
from gpulab.kernels.tiles.order import HappensBefore
from gpulab.kernels.tiles.races import Clash, ElementRaces
from gpulab.kernels.tiles.sparse import Sparse, zeros
from gpulab.observe.launches import SECTOR_BYTES, ArrayUse, Fault, LineCounts, ThreadRace
from gpulab.observe.records import SourceLine

Program = tuple[int, int, int]


class Faults:
    """Accesses that a GPU would have made outside an array, by line: the first, and how many."""

    def __init__(self) -> None:
        self._first: dict[tuple, tuple] = {}
        self._count: Counter = Counter()
        self._switched_off: list[tuple] = []

    def switched_off(self, line: SourceLine, array: str, element: int) -> int:
        """Number, from 1, of a load that a mask without ``other`` switched off, first at ``element``."""
        for number, (_, held, where, _) in enumerate(self._switched_off, 1):
            if (held, where) == (array, line):
                return number
        self._switched_off.append(("masked lane used", array, line, element))
        return len(self._switched_off)

    def uses(self, numbers: np.ndarray, program: Program) -> None:
        """Lanes whose value came from a load that was switched off there; 0 for none."""
        for number, times in zip(*np.unique(numbers[numbers > 0], return_counts=True)):
            *key, element = self._switched_off[number - 1]
            self._first.setdefault(tuple(key), ((element,), program))
            self._count[tuple(key)] += int(times)

    def check(self, access: Access, program: Program, line: SourceLine) -> None:
        wrong = access.asked & ~access.inside
        if not wrong.any():
            return
        at = np.argmax(wrong)
        offset = int(access.offsets.flat[at])
        outside = not 0 <= offset <= access.region.nbytes - access.itemsize
        kind = "out of bounds" if outside else "misaligned address"
        key = (kind, access.region.array, line)
        self._first.setdefault(key, ((offset // access.itemsize,), program))
        self._count[key] += int(wrong.sum())

    def records(self) -> tuple[Fault, ...]:
        return tuple(
            Fault(kind, array, index, program, line, self._count[kind, array, line])
            for (kind, array, line), (index, program) in self._first.items()
        )


class Counts:
    """Loads, stores, bytes, flops and races of one launch.

    Elements of an array are told apart by its dtype; a pointer cast to a narrower type than that
    cannot be followed and raises ValueError.
    """

    def __init__(self, space: AddressSpace, grid: tuple[int, int, int]) -> None:
        self._lines: dict[SourceLine, Counter] = defaultdict(Counter)
        self._uses = {region: _Use(region) for region in space.regions.values()}
        self.order = HappensBefore(math.prod(grid))
        self._storages = _storages(space, self.order)
        self._races: dict[tuple, ThreadRace] = {}
        self._places = Places()
        self._grid = grid
        self.matrix_flops: Counter = Counter()

    def begin(self, program: Program) -> None:
        """A program starts: nothing is ordered before it."""
        self.order.begin(self._linear(program))

    def instruction(self, line: SourceLine, lanes: np.ndarray, addresses: np.ndarray, itemsize: int, kind: str) -> None:
        """One tile of loads, stores or atomics: ``kind``. ``lanes``: bool, those not masked off."""
        counts, asked = self._lines[line], int(lanes.sum())
        counts["masked"] += lanes.size - asked
        counts["requests"] += 1
        sectors = np.unique(addresses[lanes] // SECTOR_BYTES).size
        if kind == "atomic":
            counts["atomics"] += asked
        for name, verb in (("loads", "read"), ("stores", "written")):
            if kind in (name, "atomic"):
                counts[name] += asked
                counts[f"{verb}_bytes"] += asked * itemsize
                counts[f"{verb}_sectors"] += sectors

    def flops(self, line: SourceLine, count: int, matrix: str = "") -> None:
        """``matrix``: the format, when the matrix units do it."""
        self._lines[line]["flops"] += count
        if matrix:
            self.matrix_flops[matrix] += count

    def access(self, line: SourceLine, access: Access, kind: str) -> None:
        """The lanes of one instruction that lie inside one array."""
        self._uses[access.region].touch(access, kind)
        storage, shift, granule = self._storages[access.region]
        where, places = _elements(access, shift, granule), _places(access, granule)
        method = {"loads": storage.read, "stores": storage.write, "atomic": storage.atomic}[kind]
        for clash in method(where, places, self._places.number(line)):
            self._race(access.region, clash, shift)

    def barrier(self, line: SourceLine) -> None:
        """``tl.debug_barrier()``."""
        self._lines[line]["barriers"] += 1
        self.order.barrier()

    def synchronise(self, access: Access, releases: bool) -> np.ndarray | None:
        """An atomic took place: what it saw, as :meth:`HappensBefore.seen` has it. None for one on several elements."""
        storage, shift, granule = self._storages[access.region]
        where = _elements(access, shift, granule)
        if where.size != max(1, access.itemsize // granule):
            return None
        element = (id(storage), int(where[0]))
        seen = self.order.clock_of(element)
        if releases:
            self.order.release(element)
        return seen

    def same_element_twice(self, line: SourceLine, access: Access, values: np.ndarray) -> None:
        """Two lanes of one store write different values to one element: which stays is chance."""
        where, stored = access.offsets[access.inside], np.broadcast_to(values, access.inside.shape)[access.inside]
        order = np.argsort(where, kind="stable")
        again = where[order][1:] == where[order][:-1]
        bits = stored[order].view(f"u{stored.itemsize}") if stored.dtype != bool else stored[order]
        differ = again & (bits[1:] != bits[:-1])
        if differ.any():
            element = int(where[order][1:][differ][0]) // access.itemsize
            number = self._places.number(line)
            self._race(
                access.region,
                Clash("write after write", element, self.order.program, number, self.order.program, number),
                0,
            )

    def lines(self) -> tuple[LineCounts, ...]:
        by_place = sorted(self._lines.items(), key=lambda item: (item[0].file, item[0].number))
        return tuple(LineCounts(line, **counts) for line, counts in by_place)

    def arrays(self) -> tuple[ArrayUse, ...]:
        return tuple(use.record() for use in self._uses.values())

    def races(self) -> tuple[ThreadRace, ...]:
        return tuple(self._races.values())

    def adopt(self, races: Iterable[ThreadRace]) -> None:
        """Races of another order of the programs; between the same lines, over the same array, they are known."""

        def place(race: ThreadRace) -> tuple:
            return race.array, frozenset((race.first_line, race.second_line))

        known = {place(race) for race in self._races.values()}
        self._races.update({("another order", *place(race)): race for race in races if place(race) not in known})

    def written(self) -> dict[str, np.ndarray]:
        """For each array that was written: bool, which of its bytes."""
        return {
            region.array: use.bytes_written() for region, use in self._uses.items() if use.written.marks is not None
        }

    def use_of(self, region: Region) -> ArrayUse:
        return self._uses[region].record()

    def _race(self, region: Region, clash: Clash, shift: int) -> None:
        first, second = self._places.lines[clash.first_line], self._places.lines[clash.second_line]
        key = (clash.kind, region.array, first, second, clash.first_program == clash.second_program)
        if key not in self._races:
            index = (clash.element - shift,)
            programs = self._position(clash.first_program), self._position(clash.second_program)
            self._races[key] = ThreadRace(
                "global", clash.kind, region.array, index, programs[0], first, programs[1], second
            )

    def _linear(self, program: Program) -> int:
        x, y, z = program
        return x + self._grid[0] * (y + self._grid[1] * z)

    def _position(self, number: int) -> Program:
        rest, x = divmod(number, self._grid[0])
        return (x, rest % self._grid[1], rest // self._grid[1])


class _Marks:
    """Elements touched in one way, and the bytes asked for."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self.asked_bytes = 0
        self.marks: np.ndarray | Sparse | None = None

    def touch(self, access: Access) -> None:
        if self.marks is None:
            self.marks = zeros(self._region.nbytes // self._region.itemsize, bool)
        where = _elements(access, 0, self._region.itemsize)
        self.marks[where] = True
        self.asked_bytes += int(access.inside.sum()) * access.itemsize

    @property
    def distinct_bytes(self) -> int:
        return 0 if self.marks is None else int(self.marks.sum()) * self._region.itemsize


class _Use:
    """What happened to one array."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self.read, self.written = _Marks(region), _Marks(region)

    def touch(self, access: Access, kind: str) -> None:
        if kind in ("loads", "atomic"):
            self.read.touch(access)
        if kind in ("stores", "atomic"):
            self.written.touch(access)

    def record(self) -> ArrayUse:
        read, written, tensor = self.read, self.written, self._region.tensor
        return ArrayUse(
            self._region.array,
            tensor.numel() * tensor.element_size(),
            read.asked_bytes,
            read.distinct_bytes,
            written.asked_bytes,
            written.distinct_bytes,
        )

    def bytes_written(self) -> np.ndarray:
        return np.repeat(self.written.marks, self._region.itemsize)


def _elements(access: Access, shift: int, granule: int) -> np.ndarray:
    """Numbers of the elements of ``granule`` bytes that the lanes inside touch."""
    if access.itemsize < granule:
        raise ValueError(
            f"{access.region.array}: a pointer cast to {access.itemsize} bytes points into elements of "
            f"{granule}; its accesses cannot be counted"
        )
    first = access.offsets[access.inside] // granule + shift
    if access.itemsize == granule:
        return first
    return (first[:, None] + np.arange(access.itemsize // granule)).ravel()


def _places(access: Access, granule: int) -> np.ndarray:
    """For each of :func:`_elements` its place in the tile, as :class:`OwnStores` numbers it."""
    places = access.inside.size + np.flatnonzero(access.inside)
    return places if access.itemsize == granule else np.repeat(places, access.itemsize // granule)


def _storages(space: AddressSpace, order: HappensBefore) -> dict[Region, tuple[ElementRaces, int, int]]:
    """For each array: who uses its storage, its first element's number there, bytes of an element."""
    found = {}
    for group in _sharing(space):
        low = min(region.real for region in group)
        granule = min(region.itemsize for region in group)
        high = max(region.real + region.nbytes for region in group)
        storage = ElementRaces(-(-(high - low) // granule), order)
        found |= {region: (storage, (region.real - low) // granule, granule) for region in group}
    return found


def _sharing(space: AddressSpace) -> list[list[Region]]:
    groups: dict[int, list[Region]] = defaultdict(list)
    for region in space.regions.values():
        groups[region.tensor.untyped_storage()._cdata].append(region)
    return list(groups.values())
