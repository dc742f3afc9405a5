"""E20.4: jobs and GPUs, drawn so that every rule of placement decides somewhere."""

from collections.abc import Iterator

from autograder.core.sampler import Sampler
from gpulab.platforms import GEOMETRY, NO_MIG

Question = dict[str, list]


def _asked(sampler: Sampler, jobs: list[tuple[float, int]], *gpus: str) -> Question:
    """The jobs in any order."""
    return {"jobs": [list(job) for job in sampler.permutation(jobs)], "gpus": list(gpus)}


def _sizes(gpu: str) -> tuple[int, int, int, int]:
    """Gigabytes of 1g, 1g with double memory, 3g and 7g."""
    profiles = list(GEOMETRY[gpu].values())
    return profiles[0].gb, profiles[1].gb, profiles[3].gb, profiles[5].gb


def places(sampler: Sampler) -> Iterator[Question]:
    """Each GPU filled so that what is left over cannot be had: illegal places and an eighth slice show."""
    for gpu in GEOMETRY:
        one, two, half, whole = _sizes(gpu)
        yield _asked(sampler, [(one, 1)] * 8, gpu)
        yield _asked(sampler, [(half, 3), (half, 3), (one, 1)], gpu)
        yield _asked(sampler, [(half, 4), (half, 3)], gpu)
        yield _asked(sampler, [(half, 4), (half, 4)], gpu)
        yield _asked(sampler, [(two, 2)] * 4, gpu)
        yield _asked(sampler, [(two, 2)] * 3 + [(one, 1)] * 2, gpu)
        yield _asked(sampler, [(two, 1)] * 5, gpu)
        yield _asked(sampler, [(half, 3), (two, 2), (one, 1), (one, 1)], gpu)
        yield _asked(sampler, [(whole, 1), (one, 1)], gpu)
        yield _asked(sampler, [(half, 4)] + [(one, 1)] * 5, gpu)


def enough(sampler: Sampler) -> Iterator[Question]:
    """Jobs of much memory and little compute, of little memory and much compute, and both sides of each size."""
    for gpu in GEOMETRY:
        one, two, half, whole = _sizes(gpu)
        for edge in sampler.shuffled(one, two, half, whole):
            for gb in sampler.shuffled(edge, edge + 0.5, edge - 0.5):
                yield _asked(sampler, [(gb, 1)], gpu)
        for compute in sampler.shuffled(1, 2, 3, 4, 5, 7, 8):
            yield _asked(sampler, [(0.5, compute)], gpu)
    yield _asked(sampler, [(15, 1)] * 4, "A100-80GB")
    yield _asked(sampler, [(30, 1)] * 4, "A100-80GB")
    yield _asked(sampler, [(4, 3)] * 3, "A100-40GB")
    yield _asked(sampler, [(50, 1), (50, 1)], "A100-40GB", "H100-80GB")
    yield _asked(sampler, [(100, 1), (60, 4)], "A100-80GB", "H200-141GB")


def packings(sampler: Sampler) -> Iterator[Question]:
    """Where the order of the list, a greedy rule or an early whole GPU leaves somebody out; and any jobs at all."""
    yield {"jobs": [[40, 3], [40, 4]], "gpus": ["H100-80GB"]}
    yield {"jobs": [[40, 4], [40, 3], [5, 1]], "gpus": ["H100-80GB"]}
    yield {"jobs": [[80, 7], *[[10, 1]] * 7], "gpus": ["A100-80GB"]}
    yield {"jobs": [[5, 1], [20, 3], [20, 3]], "gpus": ["A100-40GB"]}
    yield {"jobs": [[10, 1], [10, 2], [10, 2], [10, 2]], "gpus": ["A100-40GB"]}
    yield {"jobs": [[9, 1], [30, 3], [60, 2], [60, 4]], "gpus": ["H200-141GB", "A100-80GB"]}
    yield {"jobs": [[15, 1], [15, 1], [80, 1]], "gpus": ["H200-141GB", "A100-80GB"]}
    yield _asked(sampler, [(18, 1)] * 5 + [(20, 2)] * 3, "A100-80GB", "H200-141GB")
    yield _asked(sampler, [(200, 1), (5, 9), (5, 1)], "A100-40GB")
    yield {"jobs": [], "gpus": ["A100-40GB"]}
    yield {"jobs": [[5, 1], [1, 1]], "gpus": []}
    yield {"jobs": [], "gpus": []}
    for count in sampler.shuffled(1, 1, 2, 2):
        gpus = [sampler.choice(list(GEOMETRY)) for _ in range(count)]
        one, two, half, _ = _sizes(sampler.choice(gpus))
        shapes = ((one, 1), (one, 2), (two, 1), (two, 2), (half, 1), (half, 3), (half, 4))
        yield _asked(sampler, [sampler.choice(shapes) for _ in range(sampler.integer(3, 7))], *gpus)


def refused(sampler: Sampler) -> Iterator[Question]:
    sound = [[5, 1]]
    for gpu in sampler.shuffled(*NO_MIG):
        yield {"jobs": sound, "gpus": sampler.permutation([gpu, "A100-40GB"])}
    yield {"jobs": [], "gpus": [sampler.choice(NO_MIG)]}
    yield {"jobs": sound, "gpus": ["A100"]}
    for job in sampler.shuffled([5, 0], [5, -1], [0, 1], [-3, 1]):
        yield {"jobs": sampler.permutation([*sound, job]), "gpus": ["H100-80GB"]}
    yield {"jobs": [[5, 0]], "gpus": []}
