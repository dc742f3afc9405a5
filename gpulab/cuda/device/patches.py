"""Attributes of other modules that are replaced, and put back as they were."""

from types import ModuleType

_ABSENT = object()


class Patches:
    """Replaces attributes; :meth:`undo` restores every one of them, newest first."""

    def __init__(self) -> None:
        self._done: list[tuple[object, str, object]] = []

    def set(self, owner, name: str, value) -> None:
        """``owner.name = value`` until :meth:`undo`."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._done.append((owner, name, before))

    def append(self, values: list, value) -> None:
        """``values.append(value)`` until :meth:`undo`."""
        values.append(value)
        self._done.append((values, "", value))

    def put(self, mapping: dict, key, value) -> None:
        """``mapping[key] = value`` for a new key, until :meth:`undo`."""
        mapping[key] = value
        self._done.append((mapping, "", key))

    def replaced_functions(self) -> dict[int, object]:
        """What stands now for each function or class of a module that was replaced, by the ``id`` of the old one."""
        modules = ((owner, name, before) for owner, name, before in self._done if isinstance(owner, ModuleType))
        return {id(before): vars(owner)[name] for owner, name, before in modules if callable(before)}

    def undo(self) -> None:
        while self._done:
            owner, name, before = self._done.pop()
            if isinstance(owner, list):
                owner.remove(before)
            elif isinstance(owner, dict):
                del owner[before]
            elif before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
