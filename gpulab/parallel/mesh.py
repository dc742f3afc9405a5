"""Which ranks belong together when a job has several dimensions."""

import itertools
import math
import sys
from collections.abc import Mapping


def mesh_groups(sizes: Mapping[str, int]) -> dict[str, list[list[int]]]:
    """The groups of each dimension of a mesh, as ``torch.distributed.DeviceMesh`` has them.

    sizes: of the dimensions by name, the outermost first: ranks that differ by 1 are neighbours in the last. Each list of
    groups is in the order of their first ranks. Raises ValueError for a size less than 1.

    >>> mesh_groups({"dp": 2, "tp": 2})
    {'dp': [[0, 2], [1, 3]], 'tp': [[0, 1], [2, 3]]}
    """
    sys.audit("gpulab.answers", "mesh_groups")
    if any(size < 1 for size in sizes.values()):
        raise ValueError(f"a mesh of {dict(sizes)}")
    found, names = {}, list(sizes)
    for place, name in enumerate(names):
        step = math.prod(sizes[inner] for inner in names[place + 1 :])
        outer = range(0, math.prod(sizes.values()), step * sizes[name])
        found[name] = [
            [first + inner + step * k for k in range(sizes[name])]
            for first, inner in itertools.product(outer, range(step))
        ]
    return found
