"""How long a class takes: stock nbgrader, ours through ``nbgrader autograde``, ours on workers.

    python benchmarks/grading.py [--submissions 60] [--rounds 3] [--jobs 2] [--sizes 10 100] [--long]

The same submissions each time: the solution, every mistake and every alternative of a chapter,
repeated. Rounds are interleaved, each on a fresh copy of the course, and a run counts only when
it graded everyone. "Stock" is nbgrader with its own Execute and SaveAutoGrades in one process:
the hidden cell then judges in the learner's kernel and hands back partial credit. Prints a table
and writes benchmarks/results/grading.json.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import nbformat
import psutil
from nbgrader.api import Gradebook

from autograder.authoring.classroom import Classroom
from autograder.authoring.pipeline import write_release
from autograder.core.ledger import Ledger
from autograder.misconceptions.corpus import CORPUS, read_corpus

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "grading.json"
CHAPTER = "views"
SAMPLE_SECONDS = 1.0


@dataclass(frozen=True)
class Run:
    """One class graded. ``memory_bytes`` is the peak of the whole process tree, shared pages once."""

    system: str
    submissions: int
    seconds: float
    memory_bytes: int
    points: float

    @property
    def per_second(self) -> float:
        return self.submissions / self.seconds


def commands(jobs: int) -> dict[str, list[str]]:
    return {
        "stock nbgrader": ["nbgrader", "autograde", CHAPTER],
        "nbgrader autograde": ["nbgrader", "autograde", CHAPTER],
        f"autograder grade --jobs {jobs}": ["autograder", "grade", CHAPTER, "--jobs", str(jobs)],
    }


def make_course(folder: Path, submissions: int, alike: bool = False) -> None:
    """A released chapter and its class; no submission hangs, dies or floods.

    ``alike``: everyone hands in the solution, so that classes of any size have the same mixture.
    """
    write_release(ROOT / "exercises", CHAPTER, folder)
    name = f"{CHAPTER}/{CHAPTER}.ipynb"
    solution, release = (nbformat.read(folder / kind / name, as_version=4) for kind in ("source", "release"))
    classroom = Classroom(solution, release, read_corpus(ROOT / "exercises" / CHAPTER / CORPUS))
    kinds = ("solution",) if alike else ("solution", "mistakes", "alternative")
    ordinary = [s for s in classroom.submissions() if s.student.startswith(kinds)]
    for number, submission in enumerate(islice(cycle(ordinary), submissions)):
        target = folder / "submitted" / f"s{number:05}" / CHAPTER
        target.mkdir(parents=True)
        (target / f"{CHAPTER}.ipynb").write_bytes(submission.content)
        (target / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")


def grade(system: str, command: list[str], pristine: Path, scratch: Path) -> tuple[Run, Path]:
    course = scratch / "course"
    shutil.rmtree(course, ignore_errors=True)
    shutil.copytree(pristine, course)
    # Without nbgrader_config.py in its folder nbgrader is stock.
    folder = course if system.startswith("stock") else ROOT
    environment = os.environ | {"COURSE": str(course), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    # A cell that warned is worth nothing to stock nbgrader, whatever it earned.
    environment["PYTHONWARNINGS"] = "ignore"
    started = time.perf_counter()
    with open(scratch / "log", "w") as log:
        run = [sys.executable, "-m", *command]
        process = subprocess.Popen(run, cwd=folder, env=environment, stdout=log, stderr=log)
        peak = PeakMemory(process.pid)
        status = process.wait()
    seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"{system} failed:\n{(scratch / 'log').read_text()[-3000:]}")
    submissions, points = _scores(course)
    return Run(system, submissions, seconds, peak.stop(), points), course


def _scores(course: Path) -> tuple[int, float]:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        submissions = gradebook.assignment_submissions(CHAPTER)
        return len(submissions), sum(submission.score for submission in submissions)


class PeakMemory:
    """Samples the proportional set size of a process and all below it."""

    def __init__(self, pid: int) -> None:
        self._root, self._peak, self._end = psutil.Process(pid), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._end.set()
        self._thread.join()
        if not self._peak:
            raise SystemExit("the memory of the run was never seen")
        return self._peak

    def _watch(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            self._peak = max(self._peak, sum(map(_bytes, _tree(self._root))))


def _tree(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _bytes(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss
    except psutil.Error:
        return 0


def compare(submissions: int, rounds: int, jobs: int, scratch: Path) -> list[Run]:
    """Interleaved rounds; raises SystemExit when two systems do not give the same points."""
    pristine = scratch / f"class-{submissions}"
    make_course(pristine, submissions)
    runs = []
    for number in range(rounds):
        for system, command in commands(jobs).items():
            run, _ = grade(system, command, pristine, scratch)
            print(f"  round {number + 1}: {system:<28} {run.seconds:7.1f} s", flush=True)
            runs.append(run)
    if len({(run.submissions, run.points) for run in runs}) != 1 or runs[0].submissions != submissions:
        raise SystemExit(f"the systems do not agree: {runs}")
    return runs


def growth(sizes: list[int], jobs: int, scratch: Path) -> list[dict]:
    """Seconds for each submission once every worker has graded one, by the size of the class.

    A small class is graded several times, and the median counts.
    """
    rows = []
    for size in sizes:
        pristine = scratch / f"alike-{size}"
        make_course(pristine, size, alike=True)
        runs = [_paced(size, jobs, pristine, scratch) for _ in range(1 + 40 // size)]
        row = {key: median(run[key] for run in runs) for key in ("seconds", "seconds_each", "memory_bytes")}
        rows.append({"submissions": size, "runs": len(runs), **row})
        print(f"  {size} submissions: {row['seconds']:.1f} s", flush=True)
    return rows


def _paced(size: int, jobs: int, pristine: Path, scratch: Path) -> dict:
    system = f"autograder grade --jobs {jobs}"
    run, course = grade(system, commands(jobs)[system], pristine, scratch)
    ends = sorted(path.stat().st_mtime for path in (Ledger(course).folder / CHAPTER).glob("*.json"))
    return {
        "seconds": run.seconds,
        "seconds_each": (ends[-1] - ends[jobs - 1]) / (size - jobs),
        "memory_bytes": run.memory_bytes,
    }


def summarise(runs: list[Run]) -> list[dict]:
    """One row a system: medians, and how many times the stock throughput."""
    systems = list(dict.fromkeys(run.system for run in runs))
    seconds = {system: median(run.seconds for run in runs if run.system == system) for system in systems}
    return [
        {
            "system": system,
            "submissions": runs[0].submissions,
            "seconds": seconds[system],
            "per_second": runs[0].submissions / seconds[system],
            "times_stock": seconds[systems[0]] / seconds[system],
            "memory_bytes": max(run.memory_bytes for run in runs if run.system == system),
        }
        for system in systems
    ]


def table(rows: list[dict], sizes: list[dict]) -> str:
    lines = [f"{'':<28} {'seconds':>9} {'a second':>9} {'x stock':>8} {'peak MiB':>9}"]
    for row in rows:
        lines.append(
            f"{row['system']:<28} {row['seconds']:>9.1f} {row['per_second']:>9.2f} "
            f"{row['times_stock']:>8.1f} {row['memory_bytes'] / 1024**2:>9.0f}"
        )
    lines += ["", f"{'submissions':>11} {'seconds':>9} {'seconds each':>13} {'peak MiB':>9}"]
    for row in sizes:
        lines.append(
            f"{row['submissions']:>11} {row['seconds']:>9.1f} "
            f"{row['seconds_each']:>13.3f} {row['memory_bytes'] / 1024**2:>9.0f}"
        )
    return "\n".join(lines)


def machine() -> dict:
    packages = ("nbgrader", "torch", "distributed", "jupyter-client", "ipykernel", "sqlalchemy")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in packages},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="0: keep the recorded comparison, measure growth anew")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--long", action="store_true", help="also a class of 1,000")
    parser.add_argument("--to", type=Path, default=RESULTS)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        if options.rounds:
            runs = compare(options.submissions, options.rounds, options.jobs, Path(scratch))
        else:
            runs = [Run(**run) for run in json.loads(options.to.read_text())["runs"]]
        sizes = growth(options.sizes + [1000] * options.long, options.jobs, Path(scratch))
    rows = summarise(runs)
    print("\n" + table(rows, sizes))
    options.to.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "load_before": load, "systems": rows, "sizes": sizes}
    result["runs"] = [asdict(run) for run in runs]
    options.to.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten: {options.to}")


if __name__ == "__main__":
    main()
