"""``python -m autograder demo``: a sample class, graded with nbgrader's own commands."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nbgrader.api import Gradebook
from tqdm import tqdm

from autograder.authoring.classroom import BROKEN, Submission, write_class
from autograder.authoring.pipeline import chapters, write_release
from autograder.core.layout import ROOT
from autograder.core.report import points
from autograder.sandbox import sandbox

COURSE = ROOT / "_build" / "demo"
LOG = COURSE / "log.txt"
GRADEBOOK = COURSE / "gradebook.db"
Class = dict[str, list[Submission]]
"""Submissions by chapter."""


def run_demo(whole: str, jobs: int, only: list[str] | None = None) -> int:
    """Make, hand in, grade, give feedback, export. Returns 1 when a score is not as expected.

    ``whole``: the chapter whose whole gallery is handed in, ``"all"`` or ``"none"``; of the others, a sample.
    ``jobs``: chapters at once. ``only``: these chapters; each breaks things as it does among all.
    """
    names = chapters(ROOT / "exercises")
    if unknown := {whole} - {*names, "all", "none"} | set(only or []) - set(names):
        print(f"demo: no chapter {', '.join(sorted(unknown))}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    options = _sandbox_options()
    _start_over_when_something_changed(options)
    numbered = [(number, chapter) for number, chapter in enumerate(names) if not only or chapter in only]
    handed_in = {chapter: _hand_in(number, chapter, whole in (chapter, "all")) for number, chapter in numbered}
    print(
        f"{sum(map(len, handed_in.values()))} submissions are in {_short(COURSE / 'submitted')}; what is run:",
        flush=True,
    )
    for command in ("autograde CHAPTER", "generate_feedback CHAPTER", "export"):
        print(f"$ nbgrader {command} --CourseDirectory.root={_short(COURSE)}", flush=True)
    _enrol(handed_in)
    _grade(handed_in, options, jobs)
    _run("export", f"--to={COURSE / 'grades.csv'}")
    wrong = print_scores(handed_in)
    _say_where()
    return 1 if wrong else 0


def _hand_in(number: int, chapter: str, whole: bool) -> list[Submission]:
    if not (COURSE / "release" / chapter).exists():
        write_release(ROOT / "exercises", chapter, COURSE)
    return write_class(COURSE, ROOT / "exercises", chapter, None if whole else number)


def _sandbox_options() -> list[str]:
    """The sample class is the course's own and can be trusted: without a sandbox it runs all the same, and says so."""
    if not (problem := sandbox.problem()):
        return []
    print(f"\nNO SANDBOX: {problem}.")
    print("The sample class is graded without one, since it is the course's own. A real class is not: grading refuses")
    print(
        "to begin until bubblewrap is there, or nbgrader_config.py says that every submission is trusted.\n", flush=True
    )
    return ["--ExecuteGraded.sandbox=off"]


def _enrol(handed_in: Class) -> None:
    """Write the learners into the gradebook: two chapters at once would each begin it, and one would fail."""
    names = {submission.student for submissions in handed_in.values() for submission in submissions}
    (COURSE / "students.csv").write_text("id\n" + "\n".join(sorted(names)) + "\n")
    _run("db", "student", "import", str(COURSE / "students.csv"))
    Gradebook(f"sqlite:///{GRADEBOOK}").close()  # the course of those who name none


def _grade(handed_in: Class, options: list[str], jobs: int) -> None:
    """Every chapter, the largest first; the bar moves with each submission that is graded."""
    largest_first = sorted(handed_in, key=lambda chapter: -len(handed_in[chapter]))
    total = sum(map(len, handed_in.values()))
    with tqdm(total=total, unit="submission", dynamic_ncols=True) as bar, ThreadPoolExecutor(jobs) as pool:
        done = [pool.submit(_grade_chapter, chapter, options, bar) for chapter in largest_first]
        for one in done:
            one.result()
        bar.update(total - bar.n)  # what an earlier run graded is not graded again


def _grade_chapter(chapter: str, options: list[str], bar: tqdm) -> None:
    for line in nbgrader("autograde", chapter, *options):
        if line.startswith("graded "):
            bar.set_postfix_str(chapter, refresh=False)
            bar.update()
    _run("generate_feedback", chapter, "--force")


def nbgrader(*arguments: str) -> Iterator[str]:
    """What one of nbgrader's commands on the demo's course folder says, line by line; the log keeps it too.

    Raises CalledProcessError, with the output, when the command fails.
    """
    command = [sys.executable, "-m", "nbgrader", *arguments, f"--CourseDirectory.root={COURSE}"]
    command.append("--Application.log_level=ERROR")
    said = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            said.append(line)
            yield line
    with LOG.open("a") as log:
        log.writelines([f"$ nbgrader {' '.join(arguments)}\n", *said])
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output="".join(said))


def _run(*arguments: str) -> None:
    for _ in nbgrader(*arguments):
        pass


def print_scores(handed_in: Class) -> int:
    """A line a chapter, and one for each score that is not as it must be; returns how many those are."""
    print(
        f"\n{'':<12} {'submissions':>11} {'as expected':>11}   {'solution':>8} {'untouched':>9} {'a mistake':>9}  broken"
    )
    wrong = []
    with Gradebook(f"sqlite:///{GRADEBOOK}") as gradebook:
        for chapter, submissions in handed_in.items():
            scores = {one.student: gradebook.find_submission(chapter, one.student).score for one in submissions}
            unlike = [one for one in submissions if scores[one.student] != one.score]
            wrong += [
                f"{chapter}: {one.student} has {points(scores[one.student])}, EXPECTED {points(one.score)}"
                for one in unlike
            ]
            broken = next(student for student in BROKEN if student in scores)
            shown = [points(scores[student]) for student in ("solution", "untouched", "mistakes_1", broken)]
            cells = f"{shown[0]:>8} {shown[1]:>9} {shown[2]:>9}  {shown[3]} ({broken})"
            print(f"{chapter:<12} {len(submissions):>11} {len(submissions) - len(unlike):>11}   {cells}")
    print("\n".join(["", *wrong]))
    return len(wrong)


def _start_over_when_something_changed(options: list[str]) -> None:
    stamp, now = COURSE / "made-from.txt", "\n".join([_fingerprint(), *options])
    if COURSE.exists() and (not stamp.exists() or stamp.read_text() != now):
        print("The exercises, the graders or the sandbox changed: the sample class is graded anew.", flush=True)
        shutil.rmtree(COURSE)
    COURSE.mkdir(parents=True, exist_ok=True)
    stamp.write_text(now)


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(_inputs()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _inputs() -> Iterator[Path]:
    for folder in ("exercises", "autograder", "gpulab"):
        yield from (path for path in (ROOT / folder).rglob("*.py"))
    yield ROOT / "nbgrader_config.py"


def _say_where() -> None:
    print("site        ", _short(ROOT / "_build" / "html" / "index.html"))
    print("feedback    ", _short(COURSE / "feedback"), "  one folder a learner")
    print("grades      ", _short(COURSE / "grades.csv"), "  what was said:", _short(LOG))
    print("gradebook   ", "`make lab COURSE=_build/demo`, then the Formgrader in the Nbgrader menu")


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT))
