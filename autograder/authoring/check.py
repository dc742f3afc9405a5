"""``python -m autograder check``: the gates on an author's exercises, in this process."""

import sys
import time
from dataclasses import replace
from pathlib import Path

from autograder.authoring import on_record
from autograder.authoring.authored import readable, records
from autograder.authoring.drafts import Drafts
from autograder.authoring.gates import GATES, ON_RECORD, AuthoredExercise, Misjudged, gate
from autograder.authoring.todos import todos
from autograder.authoring.trials import with_cheapest
from autograder.core.layout import NOTEBOOK


def run(exercises: Path, names: list[str], every: bool = False, keep: bool = False, jobs: int = 1) -> int:
    """Print each problem as a sentence. Returns 1 when there are any, 2 for an unknown name.

    ``every``: try all attempts, also those that a record knows. ``keep``: write into the record which were judged rightly,
    also where others were not. ``jobs``: attempts at once.
    """
    authored_exercises, unreadable = chosen(exercises, names)
    if not authored_exercises and not unreadable:
        return 2
    checked = [_checked(replace(authored, every=every, jobs=jobs), keep) for authored in authored_exercises]
    return 1 if sum([*checked, _chapters_checked(exercises, authored_exercises, names), len(unreadable)]) else 0


def chosen(exercises: Path, names: list[str]) -> tuple[list[AuthoredExercise], dict[str, str]]:
    """The exercises that ``names`` mean, without names all that are no draft's, and the chapters among them that cannot be read.

    Those are printed, with the reason; nothing is returned, and a sentence printed, for an unknown name.
    """
    every, unreadable = readable(exercises)
    drafts = {} if names else Drafts(exercises.parent).contents.drafts
    every = [authored for authored in every if authored.name.partition(".")[0] not in drafts]
    unreadable = {
        chapter: why
        for chapter, why in unreadable.items()
        if chapter not in drafts and (not names or _speaks_of(names, chapter))
    }
    if unknown := [name for name in names if not _named(every, name) and name.partition(".")[0] not in unreadable]:
        _say_unknown(exercises, every, unknown)
        return [], {}
    for chapter, why in unreadable.items():
        print(f"{chapter}: cannot be read, and is left out\n  {why.replace(f'{exercises.parent}/', '')}")
    if not every and not unreadable:
        print(f"autograder: {exercises} holds no exercise", file=sys.stderr)
    wanted = {id(authored) for name in names for authored in _named(every, name)}
    return [authored for authored in every if not names or id(authored) in wanted], unreadable


def _say_unknown(exercises: Path, every: list[AuthoredExercise], unknown: list[str]) -> None:
    for name in unknown:
        if (exercises / name).is_dir():
            print(
                f"autograder: exercises/{name}/{NOTEBOOK} grades no function: python -m autograder new exercise {name}.FUNCTION",
                file=sys.stderr,
            )
            return
    known = ", ".join(authored.name for authored in every)
    print(f"autograder: no exercise {', '.join(unknown)}; there are: {known}", file=sys.stderr)


def _speaks_of(names: list[str], chapter: str) -> bool:
    return any(name.partition(".")[0] == chapter for name in names)


def _named(every: list[AuthoredExercise], name: str) -> list[AuthoredExercise]:
    """``views`` names a chapter's exercises, ``views.patchify`` one."""
    return [authored for authored in every if authored.name == name or authored.name.startswith(f"{name}.")]


def _checked(authored: AuthoredExercise, keep: bool) -> int:
    started = time.monotonic()
    try:
        problems = gate(authored)
    except Exception as error:  # a cell that is not there, or a gate that stumbles
        problems = [f"{authored.name}: the gates stopped at {type(error).__name__}: {error}"]
    counts = f"{len(GATES)} gates, {_counted(len(authored.mistakes), 'mistake')}, {_counted(len(authored.alternatives), 'alternative')}"
    says = _counted(len(problems), "problem") if problems else "nothing wrong"
    print(f"{authored.name}: {says} ({counts}, {time.monotonic() - started:.1f} s)")
    for problem in problems:
        print(f"  {problem.removeprefix(f'{authored.name}: ')}")
    misjudged = [problem.attempt for problem in problems if isinstance(problem, Misjudged)]
    if keep and len(misjudged) == len(problems):
        on_record.keep_seen(authored, but=misjudged)
        authored = replace(authored, record=records(authored.folder)[authored.name])
    if keep and not problems:
        on_record.keep(authored, with_cheapest(authored, authored.record))
    for left in [] if problems else [sentence for check in ON_RECORD for sentence in check(authored)]:
        print(f"  left to do: {left}")
    return len(problems)


def _chapters_checked(exercises: Path, authored_exercises: list[AuthoredExercise], names: list[str]) -> int:
    """What is left to write of the chapters themselves; not asked where one exercise alone was named."""
    count = 0
    for chapter in sorted({authored.name.partition(".")[0] for authored in authored_exercises}):
        left = [one.sentence for one in todos(exercises, chapter) if one.of == chapter]
        if left and (not names or chapter in names):
            print(f"{chapter}: {_counted(len(left), 'place')} of the chapter left to write")
            print("\n".join(f"  {sentence}" for sentence in left))
            count += len(left)
    return count


def _counted(number: int, of: str) -> str:
    return f"{number} {of}" if number == 1 else f"{number} {of}s"
