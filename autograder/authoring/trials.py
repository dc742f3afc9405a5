"""Tries an exercise's mutants and attempts, each in a process of its own, for the record; and chooses those that gates try.

``python -m autograder mutate`` tries mutants, and every attempt with thirty seeds; ``check --keep`` keeps which attempts the
gates judged rightly with their two. Both take minutes: gates try a sample of the attempts that a record knows.
"""

import resource
from collections.abc import Collection, Iterator
from dataclasses import replace

from autograder.authoring import on_record
from autograder.authoring.authored import SEEDS, AuthoredExercise
from autograder.authoring.isolated import IsolatedRuns, Trial
from autograder.authoring.mutants import Mutant, mutants
from autograder.core.problems import listed
from autograder.misconceptions.corpus import Attempt
from autograder.notebooks.cells import solution_of
from autograder.notebooks.forked import STOPPED

MANY_SEEDS = tuple(range(1, 31))
AT_ONCE = 4
"""Attempts, for each process, after which what is known of an exercise is kept."""


def sample(authored: AuthoredExercise) -> list[Attempt]:
    """The attempts that gates try: those that the record does not know, and of the others one for every criterion, a right one
    and a cheat.

    A mistake that loses one criterion alone says most of it; of those alike the record may know the cheapest.
    What a record knows can change only by what exercises share (the instruments, the referee), and that shows in a sample.
    """
    unknown = on_record.not_yet_seen(authored)
    cheap = set(on_record.current(authored).get("cheapest", ()))

    def says_most(one: Attempt) -> tuple:
        digest = on_record.digest_of_attempt(one)
        return len(authored.losses(one)), digest not in cheap, digest

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
    kept = "cheapest" in record and record.get("tried") == on_record.current(authored).get("tried")
    return record if kept else record | {"cheapest": cheapest(authored)}


def cheapest(authored: AuthoredExercise) -> list[str]:
    """The alternative that takes least processor time, and for every criterion the mistake that does of those that say most."""
    wrong = [[one for one in authored.mistakes if lost in one.loses] for lost in sorted(authored.criteria)]
    alike = [
        [one for one in some if len(one.loses) == min(len(one.loses) for one in some)]
        for some in (authored.alternatives, *wrong)
    ]
    seconds = {attempt: _seconds(authored, attempt) for some in alike if len(some) > 1 for attempt in some}
    return sorted({on_record.digest_of_attempt(min(some, key=seconds.get)) for some in alike if len(some) > 1})


def _seconds(authored: AuthoredExercise, attempt: Attempt) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    IsolatedRuns().all([as_sampled(authored, attempt.source, authored.losses(attempt))])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tried(
    authored: AuthoredExercise, isolated: IsolatedRuns, attempts: list[Attempt] | None = None
) -> tuple[dict, list[str]]:
    """The exercise's record, and what is wrong with it in sentences. What its old record knows is not tried again.

    ``attempts``: those to try besides mutants; None: all that the record does not know.
    """
    solution, old = solution_of(authored.notebook, authored.function), on_record.current(authored)
    attempts = on_record.not_yet_tried(authored) if attempts is None else attempts
    if attempts or not on_record.has_mutants(old):
        isolated.after(authored, solution)
    if not on_record.has_mutants(old):
        found = _tried_mutants(authored, list(mutants(solution)), isolated)
        old = old | found | {"executed": isolated.executed(authored)}
    problems = [*_of_survivors(authored, old["equivalent_mutants"])]
    if cheats := [one for one in on_record.not_yet_seen(authored) if one.kind == "cheat"]:
        old, kept = _with_cheats(authored, old, cheats, isolated)
        problems += kept
    if not attempts:
        return old, problems
    lost = isolated.all([Trial(authored, attempt.source, MANY_SEEDS) for attempt in attempts])
    chances = dict(_of_seeds(attempts, lost))
    return _with_tried(authored, old, attempts, chances), [*problems, *chances.values()]


def tried_and_kept(
    authored: AuthoredExercise, isolated: IsolatedRuns, attempts: list[Attempt]
) -> tuple[dict, list[str]]:
    """As ``tried``, a few attempts after another, and each time what is known by then is kept.

    Thirty seeds of some attempts take minutes each: who is stopped goes on from there.
    """
    record, problems = tried(authored, isolated, attempts=[])
    on_record.keep(authored, record)
    few = AT_ONCE * isolated.jobs
    for first in range(0, len(attempts), few):
        record, found = tried(replace(authored, record=record), isolated, attempts[first : first + few])
        on_record.keep(authored, record)
        problems += [problem for problem in found if problem not in problems]
    return record, problems


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
            seen.add(on_record.digest_of_attempt(cheat))
    return old | {"seen": sorted(seen)}, problems


def _with_tried(authored: AuthoredExercise, old: dict, attempts: list[Attempt], chances: Collection[str]) -> dict:
    """What is tried is no longer only seen, nor to be tried again; of an attempt among ``chances`` nothing is known any more."""
    now = {on_record.digest_of_attempt(attempt) for attempt in attempts}
    known = {on_record.digest_of_attempt(attempt) for attempt in authored.attempts} - now
    right = {on_record.digest_of_attempt(attempt) for attempt in attempts if attempt.name not in chances}
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
        "key": on_record.key(authored),
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


def _to_try_again(authored: AuthoredExercise, mutants_alone: bool) -> dict:
    """What its record goes on knowing while all is tried once more: that an attempt was tried, until it is again; of cheats nothing.

    Of mutants alone, what it says of attempts.
    """
    known = {name: authored.record[name] for name in ("key", "tried", "seen", "stale") if name in authored.record}
    if mutants_alone:
        return known
    cheats = {on_record.digest_of_attempt(cheat) for cheat in authored.cheats}
    seen = [digest for digest in known.get("seen", ()) if digest not in cheats]
    return known | {"seen": seen, "stale": known.get("tried", [])}


def run(authored_exercises: list[AuthoredExercise], jobs: int, every: bool, mutants_alone: bool = False) -> int:
    """Try what is stale, or ``every`` exercise whole; keep what was found. Returns 1 when something is wrong."""
    bad = 0
    for authored in authored_exercises:
        authored = replace(authored, record=_to_try_again(authored, mutants_alone)) if every else authored
        attempts = [] if mutants_alone else on_record.left_to_try(authored)
        record, problems = tried_and_kept(authored, IsolatedRuns(jobs), attempts)
        if not mutants_alone:
            on_record.keep(authored, with_cheapest(authored, record))
        _say(authored.name, record, len(attempts), problems)
        bad += bool(problems)
    return 1 if bad else 0


def _say(name: str, record: dict, attempts: int, problems: list[str]) -> None:
    print(f"{name}: {record['mutants']} mutants, {len(record['equivalent_mutants'])} of them keep all points;", end=" ")
    print(f"{attempts} attempts with {len(MANY_SEEDS)} seeds; {len(problems) or 'no'} problems", flush=True)
    for problem in problems:
        print(f"  {problem}", flush=True)
