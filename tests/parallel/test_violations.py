"""The judge of schedules, judged: by what the library runs, by every mutation of it, and by an engine that executes tables."""

import random

import pytest

from gpulab.parallel import INTERVIEW_NOTES, NAMES, gpipe, of_torch, one_f_one_b, violations, zero_bubble
from gpulab.parallel.actions import Action
from gpulab.parallel.pytorch import orders_of_torch

SINGLE = ("GPipe", "1F1B")
SHAPES = [(1, 1), (1, 4), (2, 2), (2, 4), (3, 3), (3, 6), (4, 4), (4, 8), (4, 12)]


def each(name):
    return 1 if name in SINGLE else 2


def library(shapes=SHAPES):
    for name in NAMES:
        for gpus, microbatches in shapes:
            if name == "DualPipeV" and microbatches < 2 * gpus:
                continue  # which PyTorch refuses
            yield name, gpus, microbatches


def as_it_stands(name, gpus, microbatches):
    """PyTorch's own slots where it gives them, its bubbles included."""
    from torch.distributed.pipelining.schedules import get_schedule_class

    from gpulab.parallel.pytorch import _loss, _stage

    stages = [_stage(gpu, gpus * 2, gpus) for gpu in range(0, gpus * 2, gpus)]
    order = get_schedule_class(name)(stages, microbatches, loss_fn=_loss).pipeline_order
    return [[None if action is None else str(action) for action in order[gpu]] for gpu in range(gpus)]


def executed(table, stages, microbatches):
    """Whether engines that only do what has come to them can do all of it, and each thing once: another way to judge.

    Each slot, all GPUs look at what had come before the slot began; what they make comes after it.
    """
    home: dict[int, int] = {}
    tokens, done = {("x", 0, k) for k in range(microbatches)}, set()
    for slot in range(max(map(len, table), default=0)):
        made = set()
        for gpu, row in enumerate(table):
            cell = row[slot] if slot < len(row) else None
            if cell is None:
                continue
            stage, kind, k = Action.of(cell)
            if not (stage < stages and k < microbatches) or home.setdefault(stage, gpu) != gpu:
                return False
            parts = {"F": ["F"], "B": ["I", "W"], "I": ["I"], "W": ["W"]}[kind]
            if any((part, stage, k) in done for part in parts):
                return False
            done |= {(part, stage, k) for part in parts}
            if kind == "F":
                takes, gives = {("x", stage, k)}, {("x", stage + 1, k), ("saved", stage, k)}
                gives |= {("g", stage, k)} if stage == stages - 1 else set()
            elif kind in "BI":
                takes, gives = {("g", stage, k), ("saved", stage, k)}, {("g", stage - 1, k), ("half", stage, k)}
            else:
                takes, gives = {("half", stage, k)}, set()
            if not takes <= tokens:
                return False
            made |= gives
        tokens |= made
    return len(done) == 3 * stages * microbatches


def mutations(table, stages, microbatches):
    """Every change of one action's place or name, and every exchange of two neighbours and of two GPUs' cells in a slot."""
    length = max(map(len, table))
    cells = [(gpu, slot) for gpu, row in enumerate(table) for slot, cell in enumerate(row) if cell is not None]
    for gpu, slot in cells:
        stage, kind, k = Action.of(table[gpu][slot])
        names = [Action(stage, other, k) for other in "FBIW" if other != kind]
        names += [Action(stage, kind, (k + 1) % (microbatches + 1)), Action((stage + 1) % (stages + 1), kind, k)]
        for name in (None, *map(str, names)):
            yield changed(table, {(gpu, slot): name})
        for other in range(length):
            if other != slot:
                yield changed(table, {(gpu, slot): table[gpu][other], (gpu, other): table[gpu][slot]})
        for other in range(len(table)):
            if other != gpu:
                yield changed(table, {(gpu, slot): table[other][slot], (other, slot): table[gpu][slot]})
    for gpu, row in enumerate(table):
        for slot, cell in enumerate(row):
            if cell is None:
                yield changed(table, {(gpu, slot): table[cells[0][0]][cells[0][1]]})


def changed(table, cells):
    made = [list(row) for row in table]
    for (gpu, slot), cell in cells.items():
        made[gpu][slot] = cell
    return made


@pytest.mark.parametrize("name", NAMES)
def test_no_schedule_of_the_library_is_refused(name):
    found = [
        (shape, violations(of_torch(*shape, each(name)), shape[1] * each(name), shape[2]))
        for shape in library()
        if shape[0] == name
    ]
    assert found and all(not wrong for _, wrong in found), found


@pytest.mark.parametrize("name", ["Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"])
def test_nor_is_any_with_the_slots_that_the_library_gives_it(name):
    for gpus, microbatches in [(2, 2), (2, 4), (3, 6), (4, 4), (4, 8)]:
        assert violations(as_it_stands(name, gpus, microbatches), 2 * gpus, microbatches) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_mutation_that_an_engine_could_not_run_is_found_and_no_other(name):
    gpus, microbatches = (2, 4) if name == "DualPipeV" else (3, 4) if name in SINGLE else (2, 3)
    if name == "Interleaved1F1B":
        microbatches = 4
    table, stages = of_torch(name, gpus, microbatches, each(name)), gpus * each(name)
    counted = {True: 0, False: 0}
    for mutant in mutations(table, stages, microbatches):
        runs = executed(mutant, stages, microbatches)
        assert (violations(mutant, stages, microbatches) == []) == runs, mutant
        counted[runs] += 1
    assert counted[False] > 100 and executed(table, stages, microbatches)


def test_tables_of_random_cells_are_judged_as_the_engine_does():
    chance = random.Random(1)
    sound = [one_f_one_b(2, 2), gpipe(2, 2), zero_bubble(2, 2)]
    for _ in range(2000):
        table = [[*row, None] for row in chance.choice(sound)]
        for _ in range(chance.randint(0, 2)):
            row = chance.choice(table)
            one, other = chance.randrange(len(row)), chance.randrange(len(row))
            row[one], row[other] = row[other], row[one]
        assert (violations(table, 2, 2) == []) == executed(table, 2, 2), table


def test_the_figure_of_the_interview_notes_lacks_one_action_and_runs_four_too_early():
    found = [(one.kind, str(one.action)) for one in violations(INTERVIEW_NOTES, 4, 4)]
    assert found == [("missing", "3B3"), *(("early", f"2B{k}") for k in range(4))]


def test_what_torch_says_that_1f1b_does_on_its_last_stage_is_not_what_it_does():
    from torch.distributed.pipelining.schedules import Schedule1F1B

    from gpulab.parallel.pytorch import _loss, _stage

    said = Schedule1F1B(_stage(3, 4, 4), 8, loss_fn=_loss)._get_pipeline_order()
    last = [str(action) for action in said[3] if action is not None and "REDUCE" not in str(action)]
    runs = orders_of_torch("1F1B", 4, 8)[3]
    assert runs == [f"3{kind}{k}" for k in range(8) for kind in "FB"]
    if last != runs:  # as in torch 2.13
        found = {(one.kind, str(one.action)) for one in violations([[], [], [], last], 4, 8) if one.action.stage == 3}
        assert {("missing", "3F0"), ("foreign", "3F8")} <= found


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([["0F0", "0B0"]], []),
        ([["0F0"], [None, "1F0", "1B0"]], [("missing", "0B0")]),
        ([["0F0", "0I0"]], [("missing", "0W0")]),
        ([["0F0", "0W0"]], [("missing", "0I0"), ("early", "0W0")]),
        ([["0F0", "0B0", "0F0"]], [("twice", "0F0")]),
        ([["0F0", "0B0", "0W0"]], [("early", "0W0"), ("twice", "0B0")]),
        ([["0F0", "0B0"], ["0F1", None, "0B1"]], [("split", "0F1")]),
        ([["0F0"], [None, "0B0"]], [("split", "0B0")]),
        ([["0B0", "0F0"]], [("early", "0B0")]),
        ([[None, "0F0", "0B0"], [None, None, "1F0", "1B0"]], [("early", "0B0")]),
    ],
)
def test_each_kind_of_violation(table, expected):
    assert [(one.kind, str(one.action)) for one in violations(table)] == expected


def test_an_action_of_no_stage_or_microbatch_is_foreign_and_counts_for_nothing_else():
    found = violations([["0F0", "0B0", "0F1", "1B0"]], 1, 1)
    assert [(one.kind, str(one.action)) for one in found] == [("foreign", "0F1"), ("foreign", "1B0")]


@pytest.mark.parametrize("table", [[["F0"]], [["0F"]], [["0X0"]], [[0]], [["-1F0"]], [[" 0F0"]], [["0f0"]]])
def test_a_cell_that_is_no_action_is_refused(table):
    with pytest.raises(ValueError, match="no action"):
        violations(table)


def test_nothing_is_no_pipeline():
    for table, sizes in ([[]], ()), ([["0F0"]], (0, 1)), ([["0F0"]], (1, 0)):
        with pytest.raises(ValueError, match="no pipeline"):
            violations(table, *sizes)


def test_a_violation_says_what_is_wrong():
    said = [str(one) for one in violations(INTERVIEW_NOTES)]
    assert said[:2] == ["3B3 never runs", "2B0 runs on GPU 2 in slot 9, not after 3B0"]
