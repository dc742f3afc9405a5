"""``python -m autograder mutate``: what hidden tests say of mutants, and of thirty seeds.

It takes minutes, so what it found is kept beside a chapter's mistakes, under a key of all that it
depends on; a gate asks that the key is still the right one.
"""

import ast
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import util
from pathlib import Path

from autograder.authoring.apart import Apart
from autograder.authoring.bench import RECORD, SEEDS, Bench, records
from autograder.authoring.mistakes import Attempt, listed
from autograder.authoring.mutants import Mutant, mutants
from autograder.notebooks.cells import solution_of

MANY_SEEDS = tuple(range(1, 31))


def key(bench: Bench) -> str:
    """A hash of the solution, the scenario and the verdict, their comments and docstrings left out."""
    return _hash([solution_of(bench.notebook, bench.function), *(path.read_text() for path in _modules(bench))])


def current(bench: Bench) -> dict:
    """The exercise's record, or nothing where it is that of another solution, scenario or verdict."""
    return bench.record if bench.record.get("key") == key(bench) else {}


def not_yet_tried(bench: Bench) -> list[Attempt]:
    """Its attempts that the record does not know, or knows with another verdict."""
    tried = current(bench).get("tried", ())
    return [attempt for attempt in bench.attempts if _hash_of(attempt) not in tried]


def _hash_of(attempt: Attempt) -> str:
    return _hash([attempt.as_cell(), repr(sorted(attempt.loses))])


def _hash(sources: list[str]) -> str:
    return hashlib.sha256("\n".join(map(_meaning, sources)).encode()).hexdigest()[:16]


def _modules(bench: Bench) -> list[Path]:
    """The chapter's scenarios, and those modules of its verdicts that the exercise comes from."""
    chapter = bench.name.partition(".")[0]
    found, todo = dict[str, Path](), [bench.exercise.cases.__module__]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = Path(util.find_spec(name).origin)
            todo += [other for other in _imports(found[name]) if other.startswith(f"autograder.verdicts.{chapter}.")]
    scenarios = Path(util.find_spec(f"autograder.scenarios.{chapter}").origin)
    return [scenarios, *(found[name] for name in sorted(found))]


def _imports(path: Path) -> Iterator[str]:
    yield from (node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom) and node.module)


def _meaning(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.dump(tree)


def tried(bench: Bench, apart: Apart) -> tuple[dict, list[str]]:
    """The exercise's record, and what is wrong with it in sentences. What its old record knows is not tried again."""
    solution, attempts = solution_of(bench.notebook, bench.function), not_yet_tried(bench)
    if attempts:
        apart.after(bench, solution)
    old = current(bench) or _tried_mutants(bench, list(mutants(solution)), apart)
    lost = apart.all([(bench, attempt.as_cell(), MANY_SEEDS) for attempt in attempts])
    chances = dict(_of_seeds(attempts, lost))
    known = {_hash_of(attempt) for attempt in bench.attempts if attempt.name not in chances}
    return old | {"tried": sorted(known)}, [*_of_survivors(bench, old["harmless"]), *chances.values()]


def _tried_mutants(bench: Bench, made: list[Mutant], apart: Apart) -> dict:
    lost = apart.all([(bench, mutant.source, SEEDS) for mutant in made])
    survivors = [[mutant.line, mutant.becomes] for mutant, verdicts in zip(made, lost, strict=True) if not all(verdicts)]
    return {"key": key(bench), "mutants": len(made), "harmless": sorted(survivors), "seeds": len(MANY_SEEDS)}


def _of_survivors(bench: Bench, survivors: list[list[str]]) -> Iterator[str]:
    declared = {(one.line, one.becomes) for one in bench.harmless}
    found = {(line, becomes) for line, becomes in survivors}
    for line, becomes in sorted(found - declared):
        yield f"a mutant keeps every point with some seed: `{line}` became `{becomes}`"
    for line, becomes in sorted(declared - found):
        yield f"mistakes.py calls a mutant harmless that loses, or is none: `{line}` became `{becomes}`"


def _of_seeds(attempts: list[Attempt], lost_by_attempts: list[list[list[str]]]) -> Iterator[tuple[str, str]]:
    """An attempt's name and a sentence, for each whose verdict is not its own with every seed."""
    for attempt, verdicts in zip(attempts, lost_by_attempts, strict=True):
        wrong = [(seed, lost) for seed, lost in zip(MANY_SEEDS, verdicts, strict=True) if set(lost) != set(attempt.loses)]
        if wrong:
            seed, lost = wrong[0]
            others = f" and with {len(wrong) - 1} more" if len(wrong) > 1 else ""
            yield attempt.name, f"{attempt.name} loses {listed(lost)} with seed {seed}{others}, not {listed(attempt.loses)}"


def write(folder: Path, records: dict[str, dict]) -> None:
    (folder / RECORD).write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


def run(benches: list[Bench], exercises: Path, jobs: int, every: bool) -> int:
    """Try what is stale, or ``every`` exercise whole; keep what was found. Returns 1 when something is wrong."""
    bad = 0
    for bench in benches:
        bench = replace(bench, record={}) if every else bench
        count, (record, problems) = len(not_yet_tried(bench)), tried(bench, Apart(jobs))
        bad += bool(problems)
        print(f"{bench.name}: {record['mutants']} mutants, {len(record['harmless'])} of them keep all points;", end=" ")
        print(f"{count} attempts with {len(MANY_SEEDS)} seeds; {len(problems) or 'no'} problems", flush=True)
        for problem in problems:
            print(f"  {problem}", flush=True)
        folder = exercises / bench.name.partition(".")[0]
        write(folder, records(folder) | {bench.name: record})
    return 1 if bad else 0
