"""``python -m autograder <command>``."""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "grade":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    return globals()[f"_{options.command}"](options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="grade a sample class with nbgrader's commands")
    _add_grade(commands)
    commands.add_parser("doctor", help="say what this machine can do and what to install")
    check = commands.add_parser("check", help="run the gates on exercises: what is wrong with them, in sentences")
    check.add_argument("names", nargs="*", metavar="CHAPTER[.EXERCISE]", help="(default: all)")
    source = commands.add_parser("source", help="write nbgrader's source notebooks from exercises/")
    source.add_argument("--course", type=Path, default=ROOT, help="course folder (default: the repository)")
    downloads = commands.add_parser("downloads", help="write the learners' notebooks that the site offers")
    downloads.add_argument("--to", type=Path, default=ROOT / "_build" / "exercises")
    return parser


def _add_grade(commands) -> None:
    grade = commands.add_parser(
        "grade",
        help="grade many submissions at once",
        description="Grades as `nbgrader autograde` does, many submissions at once. Options that are "
        "not listed here go to nbgrader: --force, --CourseDirectory.db_url=..., --ExecuteGraded.timeout=...",
    )
    grade.add_argument("assignment")
    grade.add_argument("--jobs", type=_positive, default=_cores(), help="worker processes (default: one a core)")
    grade.add_argument("--students", default="*", help="glob of student ids (default: all)")
    grade.add_argument("--scheduler", metavar="ADDRESS", help="of a running Dask cluster, instead of --jobs")


def _demo(options: argparse.Namespace) -> int:
    from autograder.demo import run_demo

    return run_demo()


def _source(options: argparse.Namespace) -> int:
    from autograder.authoring.pipeline import chapters, write_source

    for chapter in chapters(ROOT / "exercises"):
        print(write_source(ROOT / "exercises", chapter, options.course))
    return 0


def _downloads(options: argparse.Namespace) -> int:
    from autograder.authoring.pipeline import write_downloads, write_wheel

    for path in [*write_downloads(ROOT / "exercises", options.to), write_wheel(ROOT, options.to)]:
        print(path)
    return 0


def _grade(options: argparse.Namespace) -> int:
    from autograder.grading.command import run
    from autograder.grading.job import Job

    course = os.environ.get("COURSE", "")
    job = Job(
        options.assignment,
        folder=str(Path.cwd()),
        course=str(Path(course).resolve()) if course else "",
        students=options.students,
        options=tuple(options.rest),
    )
    return run(job, options.jobs, options.scheduler)


def _doctor(options: argparse.Namespace) -> int:
    from autograder.doctor import can_grade, examine, report

    findings = examine()
    print(report(findings))
    return 0 if can_grade(findings) else 1


def _check(options: argparse.Namespace) -> int:
    from autograder.authoring.check import run

    return run(ROOT / "exercises", options.names)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
