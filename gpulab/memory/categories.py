"""What bytes are held for: six kinds, and their sum."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Bytes:
    """Bytes by what holds them, as they were asked for (an allocator rounds each up to 512 on a GPU).

    ``parameters`` includes buffers; ``optimizer`` its state and any weights that only it has;
    ``activations`` is what a forward pass leaves for its backward pass, the batch included;
    ``cache`` is keys and values of tokens read; ``temporaries`` is all else.
    """

    parameters: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    temporaries: int = 0
    cache: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, kind) for kind in CATEGORIES)


CATEGORIES = tuple(field.name for field in fields(Bytes))
