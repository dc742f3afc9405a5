"""What the record of an exercise's trials knows, and whether it is still that of what stands there.

It lies beside the chapter's corpus, with digests of all that it stands on: the exercise's own files (``key``), which gates
ask to be what they were, and the files of gpulab and autograder that its plays executed (``executed``), which ``make audit``
asks: it tries again what stood on one that changed.
"""

import ast
import fcntl
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from autograder.authoring.authored import RECORD, AuthoredExercise, records
from autograder.authoring.executed import changed
from autograder.authoring.meaning import digest_of
from autograder.core.layout import ROOT, file_of, judge_module, run_module
from autograder.core.replaced import replaced
from autograder.misconceptions.corpus import Attempt
from autograder.notebooks.cells import solution_of

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


def stands(authored: AuthoredExercise) -> bool:
    """Whether all was tried on what stands there now: the exercise's own files, and those that its plays executed."""
    record = current(authored)
    return has_mutants(record) and not left_to_try(authored) and not _executed_another(record)


def renewed(authored: AuthoredExercise) -> AuthoredExercise:
    """With the record as an audit takes it up: where a file changed that plays executed, all is to be tried again."""
    record = current(authored)
    if not record or not _executed_another(record):
        return authored
    kept = {name: value for name, value in record.items() if name not in ("mutants", "equivalent_mutants", "executed")}
    return replace(authored, record=kept | {"stale": record.get("tried", [])})


def _executed_another(record: dict) -> bool:
    return not record.get("executed") or bool(changed(record["executed"]))


def not_yet_tried(authored: AuthoredExercise) -> list[Attempt]:
    """Its attempts, cheats apart, that the record does not know with thirty seeds, or knows with another verdict."""
    return [attempt for attempt in _unknown(authored, "tried") if attempt.kind != "cheat"]


def not_yet_seen(authored: AuthoredExercise) -> list[Attempt]:
    """Its attempts that the record does not know at all, or knows with another verdict."""
    return _unknown(authored, "tried", "seen")


def to_try_again(authored: AuthoredExercise) -> list[Attempt]:
    """Those that were tried with thirty seeds before a file changed that plays had executed."""
    stale = {*current(authored).get("stale", ())}
    return [attempt for attempt in authored.attempts if digest_of_attempt(attempt) in stale]


def left_to_try(authored: AuthoredExercise) -> list[Attempt]:
    """Those to be tried with thirty seeds, for the first time or again."""
    return not_yet_tried(authored) + to_try_again(authored)


def _unknown(authored: AuthoredExercise, *lists: str) -> list[Attempt]:
    record = current(authored)
    known = {one for name in lists for one in record.get(name, ())}
    return [attempt for attempt in authored.attempts if digest_of_attempt(attempt) not in known]


def digest_of_attempt(attempt: Attempt) -> str:
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


def keep_seen(authored: AuthoredExercise, but: Collection[Attempt] = ()) -> None:
    """All its attempts ``but`` these were judged as they name with the gates' seeds: say so in the record, and keep what else it
    knows."""
    known = current(authored)
    tried = {*known.get("tried", ())}
    seen = sorted({digest_of_attempt(attempt) for attempt in authored.attempts if attempt not in but} - tried)
    record = known | {"key": key(authored), "seen": seen}
    keep(authored, record)


def keep(authored: AuthoredExercise, record: dict) -> None:
    """Put it beside the corpus, among those of its chapter's other exercises, which may be tried at the same time."""
    lock = os.open(authored.folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write(authored.folder, records(authored.folder) | {authored.name: record})
    finally:
        os.close(lock)


def write(folder: Path, records: dict[str, dict]) -> None:
    with replaced(folder / RECORD) as file:
        file.write(json.dumps(records, indent=1, sort_keys=True) + "\n")
