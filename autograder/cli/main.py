"""``python -m autograder <command>``."""

import argparse
import os
import sys
from pathlib import Path

from autograder.cli.marking import add_options as add_options_of_marking
from autograder.cli.numbers import at_least
from autograder.core.layout import ROOT
from autograder.selfcheck.command import add_options
from autograder.selfcheck.packed import is_packed


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
    add_options(
        commands.add_parser("mark", help="run the hidden tests on one's own notebook, and show what they found")
    )
    if not is_packed():
        _add_of_the_repository(commands)
    return parser


def _add_of_the_repository(commands) -> None:
    """What the wheel with the marker alone does not hold."""
    demo = commands.add_parser("demo", help="grade a sample class with nbgrader's commands")
    demo.add_argument(
        "--whole",
        default="views",
        metavar="CHAPTER",
        help="whose whole gallery is graded, all or none (default: views)",
    )
    demo.add_argument("--only", nargs="+", metavar="CHAPTER", help="of these chapters alone (default: all)")
    demo.add_argument("--jobs", type=at_least(1), default=_cores(), help="chapters at once (default: one a core)")
    _add_grade(commands)
    commands.add_parser("doctor", help="say what this machine can do and what to install")
    check = commands.add_parser("check", help="run the gates on exercises: what is wrong with them, in sentences")
    check.add_argument("names", nargs="*", metavar="CHAPTER[.EXERCISE]", help="(default: all)")
    check.add_argument(
        "--every",
        action="store_true",
        help="all attempts with two seeds, also those that are on record: else a sample of those, as `make test`",
    )
    check.add_argument(
        "--keep",
        action="store_true",
        help="keep on record which attempts were judged rightly: `make test` then tries a sample",
    )
    check.add_argument("--jobs", type=at_least(1), default=_cores(), help="attempts at once (default: one a core)")
    mutate = commands.add_parser(
        "mutate", help="try mutants of the solutions, and every attempt with thirty seeds (minutes)"
    )
    mutate.add_argument("names", nargs="*", metavar="CHAPTER[.EXERCISE]", help="(default: all)")
    mutate.add_argument("--jobs", type=at_least(1), default=_cores(), help="processes at once (default: one a core)")
    mutate.add_argument("--mutants", action="store_true", help="mutants alone: thirty seeds take many times as long")
    mutate.add_argument("--all", action="store_true", help="what has not changed since it was tried, too")
    _add_try(commands)
    _add_new(commands)
    source = commands.add_parser("source", help="write nbgrader's source notebooks from exercises/")
    source.add_argument(
        "--course", type=Path, default=_course(), help="course folder (default: COURSE, or the repository)"
    )
    source.add_argument(
        "--only", nargs="+", metavar="CHAPTER.EXERCISE", help="these exercises, as an assignment of their own"
    )
    source.add_argument("--name", help="what the assignment of --only is called")
    collect = commands.add_parser("collect", help="take the hand-ins out of an archive of Canvas, Moodle or Blackboard")
    collect.add_argument("assignment")
    collect.add_argument("archive", type=Path, help="the zip file that the LMS makes of an assignment's hand-ins")
    collect.add_argument("--zone", default="", help="time zone of the times in it, as in Europe/Berlin or +0200")
    similar = commands.add_parser("similar", help="which submissions have code in common")
    similar.add_argument("assignment")
    similar.add_argument("--least", type=float, default=0.7, help="part of a cell's code, 0 to 1 (default: 0.7)")
    _add_explain(commands)
    _add_report(commands)
    downloads = commands.add_parser("downloads", help="write the notebooks and wheels that the site offers to learners")
    downloads.add_argument("--to", type=Path, metavar="FOLDER", help="(default: the edition's, in _build)")
    downloads.add_argument("--edition", help="open, or graded: without solutions and hidden tests (default: open)")
    downloads.add_argument("--service", default="", metavar="ADDRESS", help="of a graded course's marking service")
    marking = commands.add_parser(
        "marking", help="the marking service of a graded course, whose learners have no hidden tests"
    )
    add_options_of_marking(marking, _cores())


def _add_grade(commands) -> None:
    grade = commands.add_parser(
        "grade",
        help="grade many submissions at once",
        description="Grades as `nbgrader autograde` does, many submissions at once. Options that are "
        "not listed here go to nbgrader: --force, --CourseDirectory.db_url=..., --ExecuteGraded.timeout=...",
    )
    grade.add_argument("assignment")
    grade.add_argument("--jobs", type=at_least(1), default=_cores(), help="worker processes (default: one a core)")
    grade.add_argument("--students", default="*", help="glob of student ids (default: all)")
    grade.add_argument("--scheduler", metavar="ADDRESS", help="of a running Dask cluster, instead of --jobs")


def _add_explain(commands) -> None:
    explain = commands.add_parser(
        "explain",
        help="name the misconceptions of a graded class in functions that work on a device",
        description="Plays known wrong functions with the cases that each submission lost, about half a second of processor "
        "time for each function, and writes the misconceptions that explain it into ledger and graded notebooks. No score "
        "changes. Interrupted, it goes on where it stopped.",
    )
    explain.add_argument("assignment")
    explain.add_argument("--jobs", type=at_least(1), default=_cores(), help="processes at once (default: one a core)")


def _add_report(commands) -> None:
    report = commands.add_parser(
        "report",
        help="write one page about a class: what to teach again, who misunderstood what, points, incidents",
        description="Writes a page and, beside it, a table (.csv) with a line for each learner and criterion.",
    )
    report.add_argument("assignment")
    report.add_argument(
        "--anonymous", action="store_true", help="numbers for names, and no sentence that one learner alone was told"
    )
    report.add_argument(
        "--to", type=Path, metavar="FILE", help="(default: reports/ASSIGNMENT.html in the course folder)"
    )
    report.add_argument(
        "--new",
        type=Path,
        metavar="FOLDER",
        help="write there what was lost without a name as wrong solutions, FOLDER/CHAPTER.txt, as `try` takes them and a "
        "corpus holds them; alike ones are one, and no learner is named",
    )


def _add_try(commands) -> None:
    attempt = commands.add_parser(
        "try",
        help="grade solutions in a file: what each loses, criterion by criterion",
        description="The file holds solutions, each below a line `# %% wrong FUNCTION NAME loses=a,b` (without "
        "loses=: it is to lose anything) or `# %% right FUNCTION NAME`. Each runs in a process of its own, with limits "
        "of time and memory and no sandbox: run what you have read.",
    )
    attempt.add_argument("file", type=Path)
    attempt.add_argument(
        "--chapter", default="", help="(default: the one whose corpus it is, or that the file is called after)"
    )
    attempt.add_argument("--function", default="", help="its solutions alone")
    attempt.add_argument("--seeds", type=int, nargs="+", help="of the cases' draws (default: those of `check`)")
    attempt.add_argument("--jobs", type=at_least(1), default=_cores(), help="processes at once (default: one a core)")
    attempt.add_argument("--json", action="store_true", help="a line of JSON for each solution")


def _add_new(commands) -> None:
    new = commands.add_parser(
        "new", help="write the files of a new chapter or exercise; what is to be written is marked"
    )
    what = new.add_subparsers(dest="what", required=True)
    chapter = what.add_parser("chapter", help="page, contents, claims, notebook, corpus, hints, tests")
    chapter.add_argument("name", help="small letters, as in moving_bytes")
    chapter.add_argument("--part", default="device", help="folder of chapters/ for the page (default: device)")
    chapter.add_argument(
        "--number", type=at_least(1), help="the chapter's, which its exercises carry (default: the next)"
    )
    chapter.add_argument("--title", default="", help="(default: the name)")
    exercise = what.add_parser(
        "exercise", help="cells, attempts, hints: added to the chapter's files; run and judge in a folder"
    )
    exercise.add_argument("name", metavar="CHAPTER.FUNCTION")
    exercise.add_argument(
        "--answers", action="store_true", help="only what the function returns is judged: plain Python, and no run.py"
    )
    exercise.add_argument("--takes", default="x", help='the parameters of the function, as in "x, n" (default: x)')


def _demo(options: argparse.Namespace) -> int:
    from autograder.cli.demo import run_demo

    return run_demo(options.whole, options.jobs, options.only)


def _source(options: argparse.Namespace) -> int:
    from autograder.authoring.pipeline import chapters, write_source
    from autograder.authoring.subset import write_subset

    if options.only or options.name:
        try:
            print(write_subset(ROOT / "exercises", options.only or [], options.name or "", options.course))
        except LookupError as why:
            print(f"autograder source: {why}", file=sys.stderr)
            return 2
        return 0
    for chapter in chapters(ROOT / "exercises"):
        print(write_source(ROOT / "exercises", chapter, options.course))
    return 0


def _downloads(options: argparse.Namespace) -> int:
    from autograder.authoring.pipeline import write_downloads, write_wheel
    from autograder.core.edition import edition, of_this_build
    from autograder.selfcheck.wheel import write_client_wheel, write_mark_wheel

    try:
        made = edition(options.edition, options.service) if options.edition else of_this_build()
    except ValueError as why:
        print(f"autograder downloads: {why}", file=sys.stderr)
        return 2
    folder = options.to or made.built(ROOT) / "exercises"
    folder.mkdir(parents=True, exist_ok=True)
    wheels = [write_wheel(ROOT, folder)]
    if made.service:
        wheels.append(write_client_wheel(ROOT, folder, made))
    elif made.has_marker:
        wheels.append(write_mark_wheel(ROOT, folder))
    for path in [*write_downloads(ROOT / "exercises", folder), *wheels]:
        print(path)
    return 0


def _marking(options: argparse.Namespace) -> int:
    from autograder.marking.command import run

    return run(_course(), options)


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


def _mark(options: argparse.Namespace) -> int:
    from autograder.selfcheck.command import run

    return run(options)


def _doctor(options: argparse.Namespace) -> int:
    from autograder.cli.doctor import can_grade, examine, report

    findings = examine()
    print(report(findings))
    return 0 if can_grade(findings) else 1


def _check(options: argparse.Namespace) -> int:
    from autograder.authoring.check import run

    return run(ROOT / "exercises", options.names, options.every, options.keep, options.jobs)


def _try(options: argparse.Namespace) -> int:
    from autograder.authoring.tried import run

    exercises = ROOT / "exercises"
    return run(options.file, exercises, options.chapter, options.function, options.seeds, options.jobs, options.json)


def _new(options: argparse.Namespace) -> int:
    from autograder.authoring.new import Refused, new_chapter, new_exercise

    try:
        if options.what == "chapter":
            written = new_chapter(ROOT, options.name, options.part, options.number, options.title)
        else:
            written = new_exercise(ROOT, options.name, options.takes, options.answers)
    except Refused as why:
        print(f"autograder new: {why}", file=sys.stderr)
        return 2
    print(*written, sep="\n")
    then = (
        f"new exercise {options.name}.FUNCTION"
        if options.what == "chapter"
        else f"check {options.name.partition('.')[0]}"
    )
    print(f"\nThen: python -m autograder {then}")
    return 0


def _collect(options: argparse.Namespace) -> int:
    from autograder.lms.collect import run

    return run(_course(), options.assignment, options.archive, options.zone)


def _similar(options: argparse.Namespace) -> int:
    from autograder.grading.similar import run

    return run(_course(), options.assignment, options.least)


def _explain(options: argparse.Namespace) -> int:
    from autograder.grading.explain import run

    return run(_course(), options.assignment, options.jobs)


def _report(options: argparse.Namespace) -> int:
    from autograder.instructor.command import run

    return run(_course(), options.assignment, options.anonymous, options.to, options.new)


def _course() -> Path:
    return Path(os.environ.get("COURSE") or ROOT).resolve()


def _mutate(options: argparse.Namespace) -> int:
    from autograder.authoring.check import chosen
    from autograder.authoring.trials import run

    authored_exercises, unreadable = chosen(ROOT / "exercises", options.names)
    if not authored_exercises:
        return 1 if unreadable else 2
    return run(authored_exercises, options.jobs, options.all, options.mutants) or int(bool(unreadable))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
