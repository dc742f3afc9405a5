"""The verdicts on an exercise's mutants and attempts, kept beside its corpus with digests of all that they stand on.

``python -m autograder mutate`` tries mutants, and every attempt with thirty seeds; ``check --keep`` keeps which attempts the
gates judged rightly with their two. Both take minutes: gates ask that the exercise's own files (``key``) are what they were,
and try a sample of the attempts that a record knows. ``make audit`` asks that the files of gpulab and autograder which plays
executed (``executed``) are what they were too, and tries again what stood on one that changed.
"""

import ast
import fcntl
import json
import os
import resource
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from autograder.authoring.authored import RECORD, SEEDS, AuthoredExercise, records
from autograder.authoring.corpus import Attempt
from autograder.authoring.executed import changed
from autograder.authoring.forked import STOPPED
from autograder.authoring.isolated import IsolatedRuns, Trial
from autograder.authoring.meaning import digest_of
from autograder.authoring.mutants import Mutant, mutants
from autograder.authoring.problems import listed
from autograder.core.layout import ROOT, file_of, judge_module, run_module
from autograder.notebooks.cells import solution_of

MANY_SEEDS = tuple(range(1, 31))
HOW_TO_TRY = "python -m autograder mutate"
HOW_TO_KEEP = "python -m autograder check --keep"


def key(authored: AuthoredExercise) -> str:
    """A hash of the solution and of all files of ``exercises/`` that its run and its judge come to, without comments and docstrings."""
    modules = [module(*authored.name.split(".")) for module in (run_module, judge_module)]
    return digest_of(solution_of(authored.notebook, authored.function), *map(Path.read_text, reached(modules)))


def current(authored: AuthoredExercise) -> dict:
    """The exercise's record, or nothing where it is that of another solution, scenario or verdict."""
    return authored.record if authored.record.get("key") == key(authored) else {}


def has_mutants(record: dict) -> bool:
    return "mutants" in record


def not_yet_tried(authored: AuthoredExercise) -> list[Attempt]:
    """Its attempts, cheats apart, that the record does not know with thirty seeds, or knows with another verdict."""
    return [attempt for attempt in _unknown(authored, "tried") if attempt.kind != "cheat"]


def to_try_again(authored: AuthoredExercise) -> list[Attempt]:
    """Those that were tried with thirty seeds before a file changed that plays had executed."""
    stale = {*current(authored).get("stale", ())}
    return [attempt for attempt in authored.attempts if _hash_of(attempt) in stale]


def stands(authored: AuthoredExercise) -> bool:
    """Whether all was tried on what stands there now: the exercise's own files, and those that its plays executed."""
    record = current(authored)
    whole = has_mutants(record) and not not_yet_tried(authored) and not to_try_again(authored)
    return whole and not _executed_another(record)


def renewed(authored: AuthoredExercise) -> AuthoredExercise:
    """With the record as an audit takes it up: where a file changed that plays executed, all is to be tried again."""
    record = current(authored)
    if not record or not _executed_another(record):
        return authored
    kept = {name: value for name, value in record.items() if name not in ("mutants", "equivalent_mutants", "executed")}
    return replace(authored, record=kept | {"stale": record.get("tried", [])})


def _executed_another(record: dict) -> bool:
    return not record.get("executed") or bool(changed(record["executed"]))


def not_yet_seen(authored: AuthoredExercise) -> list[Attempt]:
    """Its attempts that the record does not know at all, or knows with another verdict."""
    return _unknown(authored, "tried", "seen")


def _unknown(authored: AuthoredExercise, *lists: str) -> list[Attempt]:
    record = current(authored)
    known = {one for name in lists for one in record.get(name, ())}
    return [attempt for attempt in authored.attempts if _hash_of(attempt) not in known]


def sample(authored: AuthoredExercise) -> list[Attempt]:
    """The attempts that gates try: those that the record does not know, and of the others one for every criterion, a right one
    and a cheat.

    A mistake that loses one criterion alone says most of it; of those alike the record may know the cheapest.
    What a record knows can change only by what exercises share (the instruments, the referee), and that shows in a sample.
    """
    unknown = not_yet_seen(authored)
    cheap = set(current(authored).get("cheapest", ()))
    says_most = lambda one: (len(authored.losses(one)), _hash_of(one) not in cheap, _hash_of(one))
    known = sorted((attempt for attempt in authored.attempts if attempt not in unknown), key=says_most)
    one_of = lambda kind: [attempt for attempt in known if attempt.kind == kind][:1]
    wrong = [attempt for attempt in known if attempt.kind == "wrong"]
    losers = [next(one for one in wrong if lost in one.loses) for lost in {lost for one in wrong for lost in one.loses}]
    chosen = (*unknown, *one_of("right"), *one_of("cheat"), *losers)
    return [attempt for attempt in authored.attempts if authored.every or attempt in chosen]


def as_sampled(authored: AuthoredExercise, source: str, loses: Collection[str]) -> Trial:
    """One seed, the cases alone by which ``loses`` is lost, and no visible check before them."""
    return Trial(authored, source, SEEDS[:1], until=frozenset(loses), checked=False)


def with_cheapest(authored: AuthoredExercise, record: dict) -> dict:
    """The record, which says what is cheapest from now on if it did not, or if attempts were tried since it did."""
    kept = "cheapest" in record and record.get("tried") == current(authored).get("tried")
    return record if kept else record | {"cheapest": cheapest(authored)}


def cheapest(authored: AuthoredExercise) -> list[str]:
    """The alternative that takes least processor time, and for every criterion the mistake that does of those that say most."""
    wrong = [[one for one in authored.mistakes if lost in one.loses] for lost in sorted(authored.criteria)]
    alike = [
        [one for one in some if len(one.loses) == min(len(one.loses) for one in some)]
        for some in (authored.alternatives, *wrong)
    ]
    seconds = {attempt: _seconds(authored, attempt) for some in alike if len(some) > 1 for attempt in some}
    return sorted({_hash_of(min(some, key=seconds.get)) for some in alike if len(some) > 1})


def _seconds(authored: AuthoredExercise, attempt: Attempt) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    IsolatedRuns().all([as_sampled(authored, attempt.source, authored.losses(attempt))])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def keep_seen(authored: AuthoredExercise) -> None:
    """All its attempts were judged as they name with the gates' seeds: say so in the record, and keep what else it knows."""
    tried = {*current(authored).get("tried", ())}
    seen = sorted({_hash_of(attempt) for attempt in authored.attempts} - tried)
    record = current(authored) | {"key": key(authored), "seen": seen}
    keep(authored, record)


def _hash_of(attempt: Attempt) -> str:
    return digest_of(attempt.source, repr("cheat" if attempt.kind == "cheat" else sorted(attempt.loses)))


def reached(modules: list[str]) -> list[Path]:
    """The files of these modules and of all modules of ``exercises`` that they come to, by their names."""
    found, todo = dict[str, Path](), list(modules)
    while todo:
        name = todo.pop()
        if name not in found and (path := ROOT / file_of(name)).is_file():
            found[name] = path
            todo += [other for other in _imports(path) if other.startswith("exercises.")]
    return [found[name] for name in sorted(found)]


def _imports(path: Path) -> Iterator[str]:
    """``a.b`` and ``a.b.c`` for ``from a.b import c``: either may be the module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tried(
    authored: AuthoredExercise, isolated: IsolatedRuns, attempts: list[Attempt] | None = None
) -> tuple[dict, list[str]]:
    """The exercise's record, and what is wrong with it in sentences. What its old record knows is not tried again.

    ``attempts``: those to try besides mutants; None: all that the record does not know.
    """
    solution, old = solution_of(authored.notebook, authored.function), current(authored)
    attempts = not_yet_tried(authored) if attempts is None else attempts
    if attempts or not has_mutants(old):
        isolated.after(authored, solution)
    if not has_mutants(old):
        old = (
            old
            | _tried_mutants(authored, list(mutants(solution)), isolated)
            | {"executed": isolated.executed(authored)}
        )
    problems = [*_of_survivors(authored, old["equivalent_mutants"])]
    if cheats := [one for one in not_yet_seen(authored) if one.kind == "cheat"]:
        old, kept = _with_cheats(authored, old, cheats, isolated)
        problems += kept
    if not attempts:
        return old, problems
    lost = isolated.all([Trial(authored, attempt.source, MANY_SEEDS) for attempt in attempts])
    chances = dict(_of_seeds(attempts, lost))
    return _with_tried(authored, old, attempts, chances), [*problems, *chances.values()]


def kept_by(authored: AuthoredExercise, lost: Collection[str]) -> set[str]:
    """The criteria that an attempt earned, which lost these; one that was stopped earned none."""
    return set() if STOPPED in lost else authored.criteria - {*lost}


def _with_cheats(
    authored: AuthoredExercise, old: dict, cheats: list[Attempt], isolated: IsolatedRuns
) -> tuple[dict, list[str]]:
    """Two seeds are enough for a cheat: it is to earn nothing, whatever was drawn."""
    problems, seen = [], {*old.get("seen", ())}
    lost = isolated.all([Trial(authored, cheat.source, SEEDS, may_break=True) for cheat in cheats])
    for cheat, verdicts in zip(cheats, lost, strict=True):
        if kept := {name for one in verdicts for name in kept_by(authored, one)}:
            problems.append(f"the cheat {cheat.name} earns {listed(kept)}")
        else:
            seen.add(_hash_of(cheat))
    return old | {"seen": sorted(seen)}, problems


def _with_tried(authored: AuthoredExercise, old: dict, attempts: list[Attempt], chances: Collection[str]) -> dict:
    """What is tried is no longer only seen, nor to be tried again; of an attempt among ``chances`` nothing is known any more."""
    now = {_hash_of(attempt) for attempt in attempts}
    known = {_hash_of(attempt) for attempt in authored.attempts} - now
    right = {_hash_of(attempt) for attempt in attempts if attempt.name not in chances}
    lists = {name: sorted({*old.get(name, ())} & known) for name in ("tried", "seen", "stale")}
    lists["tried"] = sorted({*lists["tried"]} | right)
    record = {name: value for name, value in old.items() if name not in lists}
    return record | {name: found for name, found in lists.items() if found or name == "tried"}


def _tried_mutants(authored: AuthoredExercise, made: list[Mutant], isolated: IsolatedRuns) -> dict:
    lost = isolated.all([Trial(authored, mutant.source, SEEDS, to_the_first=True) for mutant in made])
    survivors = [
        [mutant.line, mutant.becomes] for mutant, verdicts in zip(made, lost, strict=True) if not all(verdicts)
    ]
    return {
        "key": key(authored),
        "mutants": len(made),
        "equivalent_mutants": sorted(survivors),
        "seeds": len(MANY_SEEDS),
    }


def _of_survivors(authored: AuthoredExercise, survivors: list[list[str]]) -> Iterator[str]:
    declared = {(one.line, one.becomes) for one in authored.said.equivalent_mutants}
    found = {(line, becomes) for line, becomes in survivors}
    for line, becomes in sorted(found - declared):
        yield f"a mutant keeps every point with some seed: `{line}` became `{becomes}`"
    for line, becomes in sorted(declared - found):
        yield f"misconceptions.yml calls a mutant equivalent that loses points, or is no mutant: `{line}` became `{becomes}`"


def _of_seeds(attempts: list[Attempt], lost_by_attempts: list[list[list[str]]]) -> Iterator[tuple[str, str]]:
    """An attempt's name and a sentence, for each whose verdict is not its own with every seed."""
    for attempt, verdicts in zip(attempts, lost_by_attempts, strict=True):
        wrong = [
            (seed, lost) for seed, lost in zip(MANY_SEEDS, verdicts, strict=True) if set(lost) != set(attempt.loses)
        ]
        if wrong:
            seed, lost = wrong[0]
            others = f" and with {len(wrong) - 1} more" if len(wrong) > 1 else ""
            yield (
                attempt.name,
                f"{attempt.name} loses {listed(lost)} with seed {seed}{others}, not {listed(attempt.loses)}",
            )


def keep(authored: AuthoredExercise, record: dict) -> None:
    """Put it beside the corpus, among those of its chapter's other exercises, which may be tried at the same time."""
    lock = os.open(authored.folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write(authored.folder, records(authored.folder) | {authored.name: record})
    finally:
        os.close(lock)


def write(folder: Path, records: dict[str, dict]) -> None:
    (folder / RECORD).write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


def _to_try_again(authored: AuthoredExercise, mutants_alone: bool) -> dict:
    """What its record goes on knowing when all is tried once more: of mutants alone, what it says of attempts."""
    return (
        {name: value for name, value in authored.record.items() if name in ("key", "tried", "seen")}
        if mutants_alone
        else {}
    )


def run(authored_exercises: list[AuthoredExercise], jobs: int, every: bool, mutants_alone: bool = False) -> int:
    """Try what is stale, or ``every`` exercise whole; keep what was found. Returns 1 when something is wrong."""
    bad = 0
    for authored in authored_exercises:
        authored = replace(authored, record=_to_try_again(authored, mutants_alone)) if every else authored
        count = 0 if mutants_alone else len(not_yet_tried(authored))
        record, problems = tried(authored, IsolatedRuns(jobs), [] if mutants_alone else None)
        record = record if mutants_alone else with_cheapest(authored, record)
        bad += bool(problems)
        print(
            f"{authored.name}: {record['mutants']} mutants, {len(record['equivalent_mutants'])} of them keep all points;",
            end=" ",
        )
        print(f"{count} attempts with {len(MANY_SEEDS)} seeds; {len(problems) or 'no'} problems", flush=True)
        for problem in problems:
            print(f"  {problem}", flush=True)
        keep(authored, record)
    return 1 if bad else 0
