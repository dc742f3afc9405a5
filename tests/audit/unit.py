"""One unit of an audit: ``python -m tests.audit.unit KIND NAME FILE`` writes what it found to the file."""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path

from autograder.authoring import on_record, trials
from autograder.authoring.authored import AuthoredExercise, Unreadable, authored_in, records
from autograder.authoring.gates import gate
from autograder.authoring.isolated import IsolatedRuns
from tests.audit.found import Found
from tests.audit.units import EXERCISES
from tests.outcomes import FAILED, NOT_RUN, PASSED, Test, read

NOTHING_TO_TEST = 5
"""pytest's exit status where no test was chosen."""


def exercise(name: str) -> dict[str, Found]:
    """The gates; where the record does not stand, with every attempt, and then what it lacks: mutants, attempts with thirty seeds."""
    chapter = name.partition(".")[0]
    try:
        authored = next(authored for authored in authored_in(EXERCISES / chapter) if authored.name == name)
    except Unreadable as why:
        return {f"chapter {chapter}": Found(failed=1, failures=[str(why)])}
    problems = gate(replace(authored, every=not on_record.stands(authored))) or _tried(authored)
    record = on_record.current(_again(authored))
    counts = {"attempts": len(authored.attempts), "mutants": record.get("mutants", 0)}
    return {f"chapter {chapter}": Found(int(not problems), int(bool(problems)), **counts, failures=problems)}


def _tried(authored: AuthoredExercise) -> list[str]:
    began = _again(authored)
    taken_up = on_record.renewed(began)
    record, problems = trials.tried_and_kept(taken_up, IsolatedRuns(), on_record.left_to_try(taken_up))
    on_record.keep(authored, trials.with_cheapest(began, record))
    return [f"{authored.name}: {problem}" for problem in problems]


def _again(authored: AuthoredExercise) -> AuthoredExercise:
    return replace(authored, record=records(authored.folder).get(authored.name, {}))


def chapter(name: str) -> dict[str, Found]:
    return _tests(f"chapter {name}", f"--chapter={name}")


def room(name: str) -> dict[str, Found]:
    return _tests(f"room {name}", f"--room={name}")


def _tests(of: str, option: str) -> dict[str, Found]:
    """pytest, with what is marked ``audit``."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder, "outcomes.json")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "tests.outcomes", f"--outcomes={outcomes}", "--audit", option]
        )
        found = by_payer(read(outcomes), of)
    if done.returncode not in (0, 1, NOTHING_TO_TEST):
        found[of].failed += 1
        found[of].failures.append(f"pytest {option} ended with status {done.returncode}")
    return found


def by_payer(tests: dict[str, Test], of: str) -> dict[str, Found]:
    """Each test with the first chapter or room that pays for it, those without with ``of``."""
    found = defaultdict(Found, {of: Found()})
    for name, test in tests.items():
        one = found[test.cost[0][0] if test.cost else of]
        one.passed += test.came == PASSED
        if test.came in (FAILED, NOT_RUN):
            one.failed += 1
            one.failures.append(f"{name}: {test.said or 'it was not run'}")
    return found


def opinfo(_: str) -> dict[str, Found]:
    """Every operation that PyTorch's own tests know, compared with the host."""
    from tests.cuda.opinfo import DIFFERS, operations, table

    rows = table(operations(), jobs=1)
    failures = [f"{name}: {row['reason']}" for name, row in rows.items() if row["outcome"] == DIFFERS]
    return {"room device": Found(len(rows) - len(failures), len(failures), failures=failures)}


def main(kind: str, name: str, to: str) -> int:
    os.environ["OMP_NUM_THREADS"] = "1"
    found = {"exercise": exercise, "chapter": chapter, "room": room, "newest": room, "opinfo": opinfo}[kind](name)
    Path(to).write_text(json.dumps({of: asdict(one) for of, one in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
