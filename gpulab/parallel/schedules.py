"""Schedules of a pipeline, as tables: stage s on GPU s, each action in one slot."""

from gpulab.parallel.placing import placed


def gpipe(stages: int, microbatches: int) -> list[list[str | None]]:
    """All forward passes, then all backward passes in the same order (Huang et al., arXiv 1811.06965).

    Raises ValueError for fewer than one stage or microbatch, as all here do.
    """
    return one_f_one_b(stages, microbatches, ahead=microbatches)


def one_f_one_b(stages: int, microbatches: int, ahead: int | None = None) -> list[list[str | None]]:
    """Stage s runs stages - s forward passes, then backward and forward passes in turn (PipeDream-Flush, arXiv 2006.09503).

    ahead: so many forward passes on every stage before its first backward pass, in place of that.
    """
    _check(stages, microbatches)
    rows = []
    for stage in range(stages):
        first = min(microbatches, stages - stage if ahead is None else ahead)
        row = [f"{stage}F{k}" for k in range(first)]
        for k in range(microbatches):
            row.append(f"{stage}B{k}")
            if first + k < microbatches:
                row.append(f"{stage}F{first + k}")
        rows.append(row)
    return placed(rows)


def zero_bubble(stages: int, microbatches: int) -> list[list[str | None]]:
    """1F1B with its backward passes in halves: a stage runs the weights' halves where it would wait, and the rest at the end.

    ZB-H1 of Qi et al. (arXiv 2401.10241): no more microbatches in flight than 1F1B has on stage 0. Stage s lags s weights'
    halves behind.
    """
    _check(stages, microbatches)
    rows = []
    for stage in range(stages):
        first = min(microbatches, stages - stage)
        row = [f"{stage}F{k}" for k in range(first)]
        for k in range(microbatches):
            row.append(f"{stage}I{k}")
            if k >= stage:
                row.append(f"{stage}W{k - stage}")
            if first + k < microbatches:
                row.append(f"{stage}F{first + k}")
        rows.append(row + [f"{stage}W{k}" for k in range(max(microbatches - stage, 0), microbatches)])
    return placed(rows)


def _check(stages: int, microbatches: int) -> None:
    if stages < 1 or microbatches < 1:
        raise ValueError(f"{stages} stages and {microbatches} microbatches are no pipeline")


INTERVIEW_NOTES = [
    [f"{gpu}{cell}" if cell else None for cell in row.split(",")]
    for gpu, row in enumerate(
        [
            "F0,F1,F2,F3,,,,,B3,B2,B1,B0",
            ",F0,F1,F2,F3,,,B3,B2,B1,B0,",
            ",,F0,F1,F2,F3,B3,B2,B1,B0,,",
            ",,,F0,F1,F2,F3,B2,B1,B0,,",
        ]
    )
]
"""The figure of the interview notes: four GPUs, four microbatches. It is no schedule."""
