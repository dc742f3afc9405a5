"""What is wrong with a schedule."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gpulab.parallel.actions import Action, Place, Table, needs, places


@dataclass(frozen=True)
class Violation:
    """One defect of a table.

    kind, and what ``action`` and ``places`` then are:

    - ``"early"``: it runs in a slot before, or in the same slot as, what it needs, or that never runs (``waits_for``);
    - ``"missing"``: it never runs; no places;
    - ``"twice"``: it runs more than once, or a whole backward pass (B) runs beside one in halves (I, W); all places;
    - ``"foreign"``: its stage or microbatch is not one of the pipeline's;
    - ``"split"``: its stage runs on more than one GPU, the others than its first action's are the places. One for a stage;
      the action is the first, by slot and GPU, on another GPU than the stage's first.
    """

    kind: str
    action: Action
    places: tuple[Place, ...] = ()
    waits_for: tuple[Action, ...] = ()

    def __str__(self) -> str:
        return _SENTENCES[self.kind](self)


def violations(table: Table, stages: int | None = None, microbatches: int | None = None) -> list[Violation]:
    """Every defect of ``table`` as the schedule of one step, in the order of kind, stage and microbatch; none of a sound one.

    stages, microbatches: how many there are; None: as many as the table names. Of an action that runs more than once the
    first slot counts. Raises ValueError for a cell that is no action, and for fewer than one stage or microbatch.
    """
    sys.audit("gpulab.answers", "violations")
    at = _by_action(table)
    stages = max((a.stage + 1 for a in at), default=0) if stages is None else stages
    microbatches = max((a.microbatch + 1 for a in at), default=0) if microbatches is None else microbatches
    if stages < 1 or microbatches < 1:
        raise ValueError(f"{stages} stages and {microbatches} microbatches are no pipeline")
    foreign = [action for action in at if action.stage >= stages or action.microbatch >= microbatches]
    own = {action: where for action, where in at.items() if action not in foreign}
    return [
        *_missing(own, stages, microbatches),
        *_early(own, stages),
        *_twice(own),
        *(Violation("foreign", action, tuple(at[action])) for action in sorted(foreign)),
        *_split(own),
    ]


def _by_action(table: Table) -> dict[Action, list[Place]]:
    """Where each action runs, the first slot first; the actions in order."""
    at: dict[Action, list[Place]] = defaultdict(list)
    for action, place in places(table):
        at[action].append(place)
    return {action: sorted(at[action], key=lambda place: (place.slot, place.gpu)) for action in sorted(at)}


def _missing(at: dict[Action, list[Place]], stages: int, microbatches: int) -> Iterator[Violation]:
    for stage in range(stages):
        for microbatch in range(microbatches):
            has = {kind for kind in "FBIW" if Action(stage, kind, microbatch) in at}
            backward = "" if "B" in has else "IW" if has & {"I", "W"} else "B"
            yield from (
                Violation("missing", Action(stage, kind, microbatch)) for kind in "F" + backward if kind not in has
            )


def _early(at: dict[Action, list[Place]], stages: int) -> Iterator[Violation]:
    for action, (first, *_) in at.items():
        waits_for = [needed for needed in needs(action, stages) if not _has_run(needed, at, first.slot)]
        if waits_for:
            lacking = tuple(next((one for one in needed if one in at), needed[0]) for needed in waits_for)
            yield Violation("early", action, (first,), lacking)


def _has_run(any_of: tuple[Action, ...], at: dict[Action, list[Place]], slot: int) -> bool:
    return any(at[action][0].slot < slot for action in any_of if action in at)


def _twice(at: dict[Action, list[Place]]) -> Iterator[Violation]:
    for action, where in at.items():
        stage, kind, microbatch = action
        halves = [half for half in "IW" if kind == "B" and Action(stage, half, microbatch) in at]
        if len(where) > 1 or halves:
            beside = (place for half in halves for place in at[Action(stage, half, microbatch)])
            yield Violation("twice", action, (*where, *beside))


def _split(at: dict[Action, list[Place]]) -> Iterator[Violation]:
    for stage in sorted({action.stage for action in at}):
        runs = sorted(
            (place.slot, place.gpu, action) for action, where in at.items() if action.stage == stage for place in where
        )
        elsewhere = [(Place(gpu, slot), action) for slot, gpu, action in runs if gpu != runs[0][1]]
        if elsewhere:
            yield Violation("split", elsewhere[0][1], tuple(place for place, _ in elsewhere))


def _sentence_of_early(one: Violation) -> str:
    (place,) = one.places
    return (
        f"{one.action} runs on GPU {place.gpu} in slot {place.slot}, not after {' and '.join(map(str, one.waits_for))}"
    )


def _sentence_of_twice(one: Violation) -> str:
    return f"{one.action} is done {len(one.places)} times, in whole or in part"


_SENTENCES = {
    "early": _sentence_of_early,
    "missing": lambda one: f"{one.action} never runs",
    "twice": _sentence_of_twice,
    "foreign": lambda one: f"{one.action} belongs to no stage or microbatch of this pipeline",
    "split": lambda one: f"stage {one.action.stage} runs on more than one GPU",
}
