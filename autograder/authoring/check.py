"""``python -m autograder check``: the gates on an author's exercises, in this process."""

import sys
import time
from pathlib import Path

from autograder.authoring.gates import GATES, Bench, benches, gate


def run(exercises: Path, names: list[str]) -> int:
    """Print each problem as a sentence. Returns 1 when there are any, 2 for an unknown name."""
    try:
        every = benches(exercises)
    except Exception as error:  # an author's file that does not run
        print(f"the exercises cannot be read: {type(error).__name__}: {error}")
        return 1
    if unknown := [name for name in names if not _named(every, name)]:
        known = ", ".join(bench.name for bench in every)
        print(f"autograder check: no exercise {', '.join(unknown)}; there are: {known}", file=sys.stderr)
        return 2
    chosen = [bench for bench in every if not names or any(bench in _named(every, name) for name in names)]
    if not chosen:
        print(f"autograder check: {exercises} holds no exercise", file=sys.stderr)
        return 2
    return 1 if sum(_checked(bench) for bench in chosen) else 0


def _named(every: list[Bench], name: str) -> list[Bench]:
    """``views`` names a chapter's exercises, ``views.patchify`` one."""
    return [bench for bench in every if bench.name == name or bench.name.startswith(f"{name}.")]


def _checked(bench: Bench) -> int:
    started = time.monotonic()
    try:
        problems = gate(bench)
    except Exception as error:  # no such exercise among the verdicts, or a judge that stumbles
        problems = [f"{bench.name}: the gates stopped at {type(error).__name__}: {error}"]
    counts = f"{len(GATES)} gates, {len(bench.mistakes)} mistakes, {len(bench.alternatives)} alternatives"
    says = f"{len(problems)} problems" if problems else "nothing wrong"
    print(f"{bench.name}: {says} ({counts}, {time.monotonic() - started:.1f} s)")
    for problem in problems:
        print(f"  {problem}")
    return len(problems)
