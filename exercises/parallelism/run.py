"""Chapter "Tensor, pipeline and 3D parallelism": what its exercises share beside the learner's functions."""

from collections.abc import Callable

from autograder.runner.library_calls import library_calls
from autograder.runner.outcome import outcome

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""


def answer_to(
    case: dict, ask: Callable[[dict], object], *kept: str, libraries: tuple[str, ...] = ("torch", "numpy", "gpulab")
) -> dict:
    """An answer to every question, each looked at before the next is asked, with what was handed over as it is then."""
    answers = []
    with library_calls(*libraries) as called:
        for question in case["questions"]:
            answer = outcome(lambda q=question: as_it_is(ask(q)))
            answers.append(answer | {name: as_it_is(question[name]) for name in kept})
    return {"answers": answers, "called": sorted(called)}


def as_it_is(value: object) -> object:
    """Lists, tuples and dictionaries copied, so that what their owner does to them later is not seen."""
    if isinstance(value, dict):
        return {key: as_it_is(item) for key, item in value.items()}
    return [as_it_is(item) for item in value] if isinstance(value, list | tuple) else value
