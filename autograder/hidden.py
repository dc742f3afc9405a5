"""``grade("chapter.exercise")``: the one line of a graded cell's hidden part."""

import sys
from collections.abc import MutableMapping

REFEREE_VARIABLE = "AUTOGRADER_REFEREE"
_referee = ""


def take_referee_from(environment: MutableMapping[str, str]) -> None:
    """Called before a kernel runs its first cell: whatever the notebook does with its environment then costs it nothing."""
    global _referee
    _referee = environment.pop(REFEREE_VARIABLE, "")


def grade(name: str) -> float | None:
    """Play the hidden tests of ``name`` with the functions the calling notebook defines.

    Under ``nbgrader autograde`` evidence goes to the referee, which keeps the score, and
    nothing is returned. In an author's own kernel the verdict is made here, printed, and
    its score (points) returned, as nbgrader's partial credit asks.
    """
    namespace = sys._getframe(1).f_globals
    if _referee:
        from autograder.runner.client import play

        play(name, namespace, _referee)
        return None
    return _grade_here(name, namespace)


def _grade_here(name: str, namespace: dict) -> float:
    from autograder.core.report import as_text
    from autograder.judge.referee import judge_here
    from autograder.runner.scenario_runner import run_case

    verdict = judge_here(name, lambda inputs: run_case(name, namespace, inputs))
    print(as_text(verdict))
    return verdict.score
