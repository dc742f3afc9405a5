"""Runs the tests, and those that failed once more, alone: a failure is then a failure of the code.

``python -m tests [--keep-costs] [what pytest takes]``: exit status and last line are those of both runs together.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import closing, unsteady
from tests.budgets import by_payer, too_dear
from tests.groups import by_group
from tests.outcomes import FAILED, NOT_RUN, PASSED, Test, read
from tools import phase

KEPT = Path("benchmarks", "results", "tests.json")
"""In the folder that the tests run in."""
KEEP_COSTS = "--keep-costs"
TESTS_FAILED = 1
MOST_AGAIN = 50
"""More that fail are no accident."""
SECONDS = 3000
"""None is begun after: where many hang until their own limit, the run ends in time to say which."""
SECONDS_AGAIN = 300
"""All of them together: none is begun after."""
ALONE = ("--last-failed", "--last-failed-no-failures=none", "--numprocesses=0", f"--session-timeout={SECONDS_AGAIN}")


def main(arguments: list[str]) -> int:
    options = [argument for argument in arguments if argument != KEEP_COSTS]
    with tempfile.TemporaryDirectory() as folder:
        cache = f"--override-ini=cache_dir={folder}/cache"
        status, first, took = run(Path(folder, "first.json"), cache, f"--session-timeout={SECONDS}", *options)
        phases, last = phase.taken() | {"tests": took}, first
        failed = {name: test for name, test in first.items() if test.came == FAILED}
        if status == TESTS_FAILED and 0 < len(failed) <= MOST_AGAIN:
            print(f"\nOnce more, alone: the {len(failed)} that failed", flush=True)
            _, again, phases["tests again"] = run(Path(folder, "again.json"), cache, *options, *ALONE)
            last = first | {
                name: test for name, test in again.items() if name in failed and test.came in (PASSED, FAILED)
            }
    return close(status, first, last, phases, KEEP_COSTS in arguments)


def run(outcomes: Path, *options: str) -> tuple[int, dict[str, Test], dict[str, float]]:
    """Exit status, what came of each test, and what it took."""
    began, before = time.monotonic(), _children_cpu_s()
    pytest = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "tests.outcomes", f"--outcomes={outcomes}", *options]
    )
    while pytest.poll() is None:
        try:
            pytest.wait()
        except KeyboardInterrupt:  # pytest has heard it too, and ends as it does
            continue
    status = pytest.returncode if pytest.returncode >= 0 else 128 - pytest.returncode
    return status, read(outcomes), {"wall_s": time.monotonic() - began, "cpu_s": _children_cpu_s() - before}


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def close(
    status: int, first: dict[str, Test], last: dict[str, Test], phases: dict[str, dict[str, float]], keep: bool
) -> int:
    """Says and keeps what came of both runs. Returns the exit status of both."""
    if all(test.came == NOT_RUN for test in first.values()):  # collected, or asked for help
        return status
    shaky = {name: test for name, test in first.items() if test.came == FAILED and last[name].came == PASSED}
    if shaky:
        unsteady.keep(shaky)
    if keep:
        keep_costs(first, phases)
    dear = too_dear(by_payer(test.cost for test in first.values() if test.cost))
    print("", *closing.spent(phases, first), *dear, *closing.came(last, shaky), sep="\n", flush=True)
    mended = (
        status == TESTS_FAILED
        and shaky
        and not dear
        and all(test.came not in (FAILED, NOT_RUN) for test in last.values())
    )
    return 0 if mended else status


def keep_costs(tests: dict[str, Test], phases: dict[str, dict[str, float]]) -> None:
    costs = {name: test.cost for name, test in tests.items() if test.cost}
    kept = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
        "phases": rounded(phases),
        "seconds": rounded(dict(sorted(by_payer(costs.values()).items()))),
        "groups": rounded(by_group(costs)),
    }
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


def rounded(seconds: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: {key: round(value, 1) for key, value in one.items()} for name, one in seconds.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
