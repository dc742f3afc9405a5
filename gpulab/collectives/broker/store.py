"""The key-value store that rendezvous, new groups and device meshes want."""

from collections.abc import Callable
from dataclasses import dataclass

Answer = Callable[[bytes], None]


@dataclass
class _Asked:
    rank: int
    key: str
    answer: Answer


class KeyValues:
    """Answers at once, but for ``get`` of a key that is not there: then when somebody sets it."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._waiting: list[_Asked] = []

    def ask(self, rank: int, what: str, key: str, value: bytes, answer: Answer) -> None:
        """what: ``set``, ``get``, ``add``, ``check``, ``delete``, ``append`` or ``count``."""
        if what == "get" and key not in self._values:
            self._waiting.append(_Asked(rank, key, answer))
            return
        answer(self._done(what, key, value))
        here = [asked for asked in self._waiting if asked.key in self._values]
        self._waiting = [asked for asked in self._waiting if asked.key not in self._values]
        for asked in here:
            asked.answer(self._values[asked.key])

    def awaited_by(self, rank: int) -> str | None:
        """The key that ``rank`` waits for."""
        return next((asked.key for asked in self._waiting if asked.rank == rank), None)

    def _done(self, what: str, key: str, value: bytes) -> bytes:
        if what == "get":
            return self._values[key]
        if what == "check":
            return b"1" if key in self._values else b""
        if what == "delete":
            return b"1" if self._values.pop(key, None) is not None else b""
        if what == "count":
            return b"%d" % len(self._values)
        if what == "add":
            value = b"%d" % (int(self._values.get(key, b"0")) + int(value))
        elif what == "append":
            value = self._values.get(key, b"") + value
        self._values[key] = value
        return value
