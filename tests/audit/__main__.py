"""``python -m tests.audit``: see :mod:`tests.audit`."""

import argparse
import os
import subprocess
import sys

from tests.audit.run import failures_of, left, run
from tests.audit.state import State, key_in
from tests.audit.units import newest, units
from tests.rooms import ROOMS, ROOT, pages

INTERRUPTED = 130


def main() -> int:
    options = _options()
    chosen = newest() if options.newest else units(options.chapter, options.room)
    state = State(ROOT / "_build" / "audit", ROOT / "benchmarks" / "results" / "audit.json", key_in(ROOT))
    for unit in [unit for unit in chosen if options.again and failures_of(state.of(unit))]:
        state.forget(unit)
    print(f"{len(chosen)} units, {_named(left(chosen, state))}", flush=True)
    if options.left:
        return 0
    try:
        failures = run(chosen, state, options.jobs, _commit(), lambda said: print(said, flush=True))
    except KeyboardInterrupt:
        print(f"interrupted, {_named(left(chosen, state))}: the same command goes on")
        return INTERRUPTED
    print(*failures, f"{len(failures) or 'no'} failures, {_named(left(chosen, state))}", sep="\n")
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--chapter", choices=sorted(pages()), default="", help="one chapter, which may be a draft")
    what.add_argument("--room", choices=sorted(ROOMS), default="", help="one part of the machinery")
    what.add_argument("--newest", action="store_true", help="rooms with the newest PyTorch alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="units at once (default: one a core)")
    parser.add_argument("--left", action="store_true", help="only say what is left")
    parser.add_argument("--again", action="store_true", help="try what failed once more, though nothing changed")
    return parser.parse_args()


def _named(units: list) -> str:
    return f"{len(units)} left: {', '.join(unit.name for unit in units)}" if units else "none left"


def _commit() -> str:
    """With a plus sign where the tree is not that of the commit."""
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


if __name__ == "__main__":
    sys.exit(main())
