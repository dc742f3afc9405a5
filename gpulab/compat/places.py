"""An attribute of PyTorch's that is replaced, or that has to be read late since it may have been replaced."""

from typing import Any, NamedTuple


class Place(NamedTuple):
    """``owner.name``; unpacks into the first two arguments of ``setattr``."""

    owner: Any
    name: str

    @property
    def value(self) -> Any:
        """What stands there now. Raises AttributeError where this PyTorch has no such name."""
        return getattr(self.owner, self.name)

    @property
    def exists(self) -> bool:
        """Whether this PyTorch has it."""
        return hasattr(self.owner, self.name)

    def set(self, value: Any) -> None:
        """``owner.name = value``."""
        setattr(self.owner, self.name, value)
