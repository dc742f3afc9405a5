"""Runs the learner's functions for the chapter "Tensor, pipeline and 3D parallelism" and records what they did."""

from collections.abc import Callable

from autograder.scenario_runner import Learner
from autograder.scenarios.library_calls import library_calls
from autograder.scenarios.outcome import outcome
from autograder.scenarios.parallelism_mlp import tensor_parallel_mlp as tensor_parallel_mlp

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""


def validate_schedule(learner: Learner, case: dict) -> dict:
    """Have every table judged; how it is after that, and which libraries were called."""
    return _asked(case, lambda q: learner.validate_schedule(q["table"], q["stages"], q["microbatches"]), "table")


def _asked(
    case: dict, ask: Callable[[dict], object], *kept: str, libraries: tuple[str, ...] = ("torch", "numpy", "gpulab")
) -> dict:
    """An answer to every question, each looked at before the next is asked, with what was handed over as it is then."""
    answers = []
    with library_calls(*libraries) as called:
        for question in case["questions"]:
            answer = outcome(lambda q=question: _as_it_is(ask(q)))
            answers.append(answer | {name: _as_it_is(question[name]) for name in kept})
    return {"answers": answers, "called": sorted(called)}


def _as_it_is(value: object) -> object:
    """Lists, tuples and dictionaries copied, so that what their owner does to them later is not seen."""
    if isinstance(value, dict):
        return {key: _as_it_is(item) for key, item in value.items()}
    return [_as_it_is(item) for item in value] if isinstance(value, list | tuple) else value


def schedule_1f1b(learner: Learner, case: dict) -> dict:
    """Ask for every table, and spoil what came back before the next is asked for."""

    def ask(question: dict) -> object:
        table = learner.schedule_1f1b(question["stages"], question["microbatches"])
        copied = _as_it_is(table)
        for row in table if isinstance(table, list) else ():
            if isinstance(row, list):
                row.clear()
        return copied

    return _asked(case, ask)


def mesh_plan(learner: Learner, case: dict) -> dict:
    """Ask for every plan; how the two dictionaries are after that."""
    return _asked(
        case, lambda q: learner.mesh_plan(q["model"], q["cluster"]), "model", "cluster", libraries=("gpulab",)
    )
