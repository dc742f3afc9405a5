"""``python -m autograder demo``: a sample class, graded with nbgrader's own commands."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Gradebook

from autograder.authoring.classroom import Submission, write_class
from autograder.authoring.pipeline import chapters, write_source
from autograder.ledger import Ledger
from autograder.report import points

ROOT = Path(__file__).parents[1]
COURSE = ROOT / "_build" / "demo"


def run_demo() -> int:
    """Make, hand in, grade, give feedback, export. Returns 1 when a score is not as expected."""
    _start_over_when_the_course_changed()
    wrong = 0
    for chapter in chapters(ROOT / "exercises"):
        write_source(ROOT / "exercises", chapter, COURSE)
        if not (COURSE / "release" / chapter).exists():
            nbgrader("generate_assignment", chapter, "--create")
        submissions = write_class(COURSE, ROOT / "exercises", chapter)
        print(f"{len(submissions)} submissions are in {_short(COURSE / 'submitted')}", flush=True)
        nbgrader("autograde", chapter)
        nbgrader("generate_feedback", chapter, "--force")
        wrong += print_scores(chapter, submissions)
    nbgrader("export", f"--to={COURSE / 'grades.csv'}")
    _say_where()
    return 1 if wrong else 0


def nbgrader(*arguments: str) -> None:
    """One of nbgrader's commands on the demo's course folder. Raises CalledProcessError."""
    command = ["nbgrader", *arguments, f"--CourseDirectory.root={COURSE}"]
    print("$", " ".join(command).replace(f"{ROOT}/", ""), flush=True)
    quiet = ["--Application.log_level=ERROR"]
    subprocess.run([sys.executable, "-m", *command, *quiet], cwd=ROOT, check=True)


def print_scores(chapter: str, submissions: list[Submission]) -> int:
    """The table of scores; returns how many differ from what the submission must earn."""
    print(f"\n{'submission':<22} {'score':>7} {'of':>6}  remark")
    wrong = 0
    ledger = Ledger(COURSE)
    with Gradebook(f"sqlite:///{COURSE / 'gradebook.db'}") as gradebook:
        for submission in submissions:
            graded = gradebook.find_submission(chapter, submission.student)
            as_expected = graded.score == submission.score
            wrong += not as_expected
            entry = ledger.read(chapter, submission.student)
            remark = entry.notes[0] if entry and entry.notes else ""
            if not as_expected:
                remark = f"EXPECTED {points(submission.score)}. {remark}"
            print(f"{submission.student:<22} {points(graded.score):>7} {points(graded.max_score):>6}  {remark}")
    print()
    return wrong


def _start_over_when_the_course_changed() -> None:
    stamp, now = COURSE / "made-from.txt", _fingerprint()
    if COURSE.exists() and (not stamp.exists() or stamp.read_text() != now):
        print("The exercises or the graders changed: the sample class is graded anew.", flush=True)
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
    print("grades      ", _short(COURSE / "grades.csv"))
    print("gradebook   ", "`make lab COURSE=_build/demo`, then the Formgrader in the Nbgrader menu")


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT))
