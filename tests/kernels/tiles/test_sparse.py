"""Notes of few elements of a large array are those of an array with a place for each."""

import numpy as np

from gpulab.kernels.tiles.sparse import DENSE, Sparse, zeros

ELEMENTS = 500_001


def test_it_holds_what_an_array_holds():
    draw = np.random.default_rng(3)
    sparse, dense = Sparse(ELEMENTS, np.int32), np.zeros(ELEMENTS, np.int32)
    for _ in range(50):
        where = draw.integers(0, ELEMENTS, 300)
        values = draw.integers(1, 9, 300)
        sparse[where] = dense[where] = values
        read = draw.integers(0, ELEMENTS, 300)
        assert (sparse[read] == dense[read]).all() and (sparse[where] == dense[where]).all()
    assert sparse.sum() == dense.sum() and (np.asarray(sparse) == dense).all() and np.asarray(sparse).dtype == np.int32
    sparse[np.arange(9)] = 0
    assert not sparse[np.arange(9)].any()


def test_of_the_same_place_twice_the_last_stays():
    sparse = Sparse(ELEMENTS, np.int32)
    sparse[np.array([7, 7, 200_000])] = np.array([1, 2, 3])
    assert sparse[np.array([7, 200_000, 8])].tolist() == [2, 3, 0]


def test_only_what_is_large_is_sparse():
    assert isinstance(zeros(1000, bool), np.ndarray) and isinstance(zeros(DENSE + 1, bool), Sparse)
    assert not zeros(1 << 40, np.int32)[np.array([1 << 39])].any()
