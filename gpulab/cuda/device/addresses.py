"""Memory of the card by its address, which is all that a CUDA graph knows of it.

A graph holds no tensor. A storage that it uses can be freed while the graph is still there: a replay
then reads and writes what lies at the address by then, another storage's bytes or those that were left.
"""

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import torch

from gpulab.cuda.device.memory import DeviceMemory, Held
from gpulab.cuda.errors import NotModelled
from gpulab.cuda.machine.allocator import Allocator
from gpulab.cuda.machine.order import AccessHistory, Extent

_GAVE_BACK = (
    "the replay of a CUDA graph that uses memory which was freed and went back to the driver "
    "(torch.cuda.empty_cache does that, and every new capture calls it; keep the graph's inputs)"
)


class Place:
    """The bytes from ``address`` on that one storage had when a graph was captured.

    ``resident``: that storage, weakly, while it is there. ``left``: once it is gone, host memory with what the
    bytes hold where no other storage lies.
    """

    __slots__ = ("address", "nbytes", "segment", "resident", "left", "__weakref__")

    def __init__(self, held: Held) -> None:
        self.address, self.nbytes = held.block.address, held.nbytes
        self.segment = held.block.segment.address
        self.resident: weakref.ref | None = held
        self.left: torch.UntypedStorage | None = None

    @property
    def here(self) -> int:
        """The host address of what was left."""
        return self.left.data_ptr()


class _Neighbour(NamedTuple):
    """A storage that is live now. ``here``: its host address."""

    address: int
    nbytes: int
    here: int
    accesses: AccessHistory


class Mapped:
    """What lies at the places of a graph, by their numbers, for one replay.

    ``accesses``: of each storage there the access history, and how far behind the storage's start the place begins.
    """

    def __init__(self) -> None:
        self.storages: dict[int, torch.UntypedStorage] = {}
        self.accesses: dict[int, list[tuple[AccessHistory, int]]] = {}

    def uses(self, recorded: list[tuple[int, Extent]]) -> list[tuple[AccessHistory, Extent]]:
        """Recorded uses, which are by number, as the machine is told of them."""
        return [
            (accesses, extent.behind(shift))
            for number, extent in recorded
            for accesses, shift in self.accesses.get(number, ())
        ]


class Addresses:
    """Finds what lies at the places of graphs. ``keeps_bytes``: tensors have values."""

    def __init__(self, memory: DeviceMemory, allocator: Allocator, keeps_bytes: bool) -> None:
        self._memory, self._allocator, self._keeps_bytes = memory, allocator, keeps_bytes
        self._vacated: dict[int, weakref.WeakSet[Place]] = {}

    def place(self, storage: torch.UntypedStorage) -> Place | None:
        """Where a storage of the card lies, for a graph to keep. None: it has no bytes."""
        held = self._memory.held[storage._cdata]
        if held.block is None:
            return None
        place = held.place and held.place()
        if place is None:
            place = Place(held)
            held.place = weakref.ref(place)
            self._memory.on_leave = self._leave
        return place

    def _leave(self, held: Held, nbytes: int) -> None:
        """A storage is about to go from its block; its first ``nbytes`` bytes are still there."""
        segment = held.block.segment.address
        place = held.place and held.place()
        if place is not None:
            held.place = place.resident = None
            place.left = torch.UntypedStorage(place.nbytes if self._keeps_bytes else 0)
            self._vacated.setdefault(segment, weakref.WeakSet()).add(place)
        if self._keeps_bytes and segment in self._vacated:
            gone = _Neighbour(held.block.address, nbytes, held.here, held.accesses)
            for other in self._vacated[segment]:
                _copy(gone, other)

    def map(self, places: dict[int, Place | None]) -> Mapped:
        """What lies at ``places`` now; :meth:`unmap` afterwards. Raises NotModelled where the driver has the memory."""
        mapped, vacated = Mapped(), {}
        for number, place in places.items():
            if place is None:
                mapped.storages[number] = torch.UntypedStorage(0)
            elif place.resident is None:
                vacated[number] = place
            else:
                storage = mapped.storages[number] = place.resident()
                mapped.accesses[number] = [(self._memory.held[storage._cdata].accesses, 0)]
        if vacated:
            self._map_vacated(vacated, mapped)
        return mapped

    def _map_vacated(self, vacated: dict[int, Place], mapped: Mapped) -> None:
        if any(place.segment not in self._allocator.segments for place in vacated.values()):
            raise NotModelled(_GAVE_BACK)
        live = self._live(vacated.values())
        for number, place in vacated.items():
            tenants = [one for one in live[place.segment] if _overlap(one, place)]
            mapped.storages[number] = place.left
            mapped.accesses[number] = [(one.accesses, place.address - one.address) for one in tenants]
            if self._keeps_bytes:
                for one in tenants:
                    _copy(one, place)

    def unmap(self, places: dict[int, Place | None]) -> None:
        """The replay is over: what it wrote at vacated places is there for whoever lies there."""
        vacated = [place for place in places.values() if place is not None and place.resident is None]
        live = self._live(vacated) if vacated else {}
        for place in vacated:
            for other in (*live[place.segment], *self._vacated[place.segment]):
                if other is not place:
                    _copy(place, other)

    def _live(self, places: Iterator[Place]) -> dict[int, list[_Neighbour]]:
        """The live storages of the segments that ``places`` are in."""
        wanted, found = {place.segment for place in places}, defaultdict(list)
        for held in self._memory.held.values():
            if held.block is not None and held.block.segment.address in wanted:
                one = _Neighbour(held.block.address, held.nbytes, held.here, held.accesses)
                found[held.block.segment.address].append(one)
        return found


def _overlap(one, other) -> bool:
    return one.address < other.address + other.nbytes and other.address < one.address + one.nbytes


def _copy(source, target) -> None:
    """The bytes that both have, on the host."""
    low = max(source.address, target.address)
    nbytes = min(source.address + source.nbytes, target.address + target.nbytes) - low
    if nbytes > 0:
        ctypes.memmove(target.here + low - target.address, source.here + low - source.address, nbytes)
