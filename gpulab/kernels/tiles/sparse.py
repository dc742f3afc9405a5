"""Notes of the elements of an array, one for each, though few may ever be made."""

import numpy as np

DENSE = 1 << 28
"""Elements up to which each has a place from the beginning. Memory that is asked for counts towards a process's limit, used or not."""
_PAGE = 1 << 16


def zeros(elements: int, dtype: type) -> "np.ndarray | Sparse":
    """An array of zeros for so many elements, to be indexed by arrays of their numbers."""
    return np.zeros(elements, dtype) if elements <= DENSE else Sparse(elements, dtype)


class Sparse:
    """As a one-dimensional array of zeros, of which only those pages take memory that were written."""

    def __init__(self, elements: int, dtype: type) -> None:
        self._elements, self._dtype, self._pages = elements, dtype, {}

    def __getitem__(self, where: np.ndarray) -> np.ndarray:
        found = np.zeros(where.shape, self._dtype)
        for page, here in _by_page(where):
            if page in self._pages:
                found[here] = self._pages[page][where[here] % _PAGE]
        return found

    def __setitem__(self, where: np.ndarray, values: np.ndarray | int) -> None:
        values = np.broadcast_to(values, where.shape)
        for page, here in _by_page(where):
            self._pages.setdefault(page, np.zeros(_PAGE, self._dtype))[where[here] % _PAGE] = values[here]

    def __array__(self, dtype: type | None = None, copy: bool | None = None) -> np.ndarray:
        """All of it, with a place for each."""
        whole = np.zeros(-(-self._elements // _PAGE) * _PAGE, dtype or self._dtype)
        for page, held in self._pages.items():
            whole[page * _PAGE : (page + 1) * _PAGE] = held
        return whole[: self._elements]

    def sum(self) -> int:
        return sum(int(page.sum()) for page in self._pages.values())


def _by_page(where: np.ndarray) -> list[tuple[int, np.ndarray]]:
    pages = where // _PAGE
    return [(int(page), pages == page) for page in np.unique(pages)]
