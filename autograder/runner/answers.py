"""What runs beside the learner's function where an exercise is questions to it: it is called, and nothing else is looked at."""

from collections.abc import Callable
from typing import Any

from autograder.protocol.asked import asked
from autograder.runner.background_work import detector
from autograder.runner.interpreter import ASKS, interpreter_for

NOT_ALONE = "the function uses something of the notebook's that is no plain Python"


def ask(function: Callable, case: dict, describe: Callable[[BaseException], dict]) -> dict[str, Any]:
    """The answers to ``case["calls"]``: of an interpreter that has ``case["libraries"]`` alone, or of this one, ``in_kernel``."""
    if case["in_kernel"]:
        with detector.own_answers():
            return asked(function, case["calls"], describe)
    try:
        interpreter = interpreter_for(function, tuple(case["libraries"]), case.get("asks", ASKS))
    except Exception as error:  # it holds what cannot be sent: an open file, a generator
        return {"raised": describe(error) | {"message": f"{NOT_ALONE} ({error})"}}
    return interpreter.asked(case["calls"])
