"""The cases of one seed, drawn once for all attempts that meet them, also those in processes that are forked later."""

from collections.abc import Callable, Iterable, Iterator

from autograder.core.exercise import Case


class Drawn:
    """Cases as far as somebody has come; nobody changes them, for a learner's process gets bytes. ``draw``: begins to draw them."""

    def __init__(self, draw: Callable[[], Iterable[Case]]) -> None:
        self._draw = draw
        self._kept: list[Case] = []
        self._more: Iterator[Case] | None = None

    def __iter__(self) -> Iterator[Case]:
        place = 0
        while place < len(self._kept) or self._another():
            yield self._kept[place]
            place += 1

    def _another(self) -> bool:
        """Draw the next case; False where there is none."""
        self._more = iter(self._draw()) if self._more is None else self._more
        for case in self._more:
            self._kept.append(case)
            return True
        return False
