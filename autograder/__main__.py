"""``python -m autograder <command>``."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="autograder", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="grade a sample class with nbgrader's commands")
    source = commands.add_parser("source", help="write nbgrader's source notebooks from exercises/")
    source.add_argument("--course", type=Path, default=ROOT, help="course folder (default: the repository)")
    downloads = commands.add_parser("downloads", help="write the learners' notebooks that the site offers")
    downloads.add_argument("--to", type=Path, default=ROOT / "_build" / "exercises")
    options = parser.parse_args(arguments)
    return globals()[f"_{options.command}"](options)


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


if __name__ == "__main__":
    sys.exit(main())
