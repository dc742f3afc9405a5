"""Plays an exercise's hidden tests with the course's own solution; the exit status is 0 where it loses nothing and nothing breaks.

python -m autograder.selfcheck.own_solution        reads the exercise's name and the seed of its cases
"""

import os
import sys

from autograder.core.layout import ROOT
from autograder.core.sampler import Sampler
from autograder.judge.referee import play_here
from autograder.notebooks.in_process import run_notebook
from autograder.runner.scenario_runner import run_case
from autograder.selfcheck.chapters import Chapter


def passes(name: str, seed: int) -> bool:
    """In a process of its own: the notebook's cells are run here."""
    chapter, _, function = name.partition(".")
    notebook = Chapter(ROOT / "exercises" / chapter)
    (graded,) = [grade_id for grade_id, graded in notebook.functions.items() if graded == function]
    namespace, _ = run_notebook(notebook.notebook, {function: notebook.solution(function)}, graded)
    played = play_here(name, lambda inputs: run_case(name, namespace, inputs), Sampler(seed), to_the_first=True)
    return not played.broken and not played.lost_something


if __name__ == "__main__":
    exercise, drawn = sys.stdin.read().split()
    # What still runs in the background is not waited for.
    os._exit(0 if passes(exercise, int(drawn)) else 1)
