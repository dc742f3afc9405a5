"""Runs scenarios in the learner's process. It knows no expected answer."""

import os
import re
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import gpulab
from autograder.core.layout import ROOT, file_of, imported, run_module
from autograder.core.settings import fresh_settings
from autograder.protocol import errors, wire
from autograder.runner import answers
from autograder.runner.background_work import detector
from gpulab.observe.lines import is_learners_file


class NotDefined(Exception):
    """The notebook lacks something that the exercise asks for."""


class Learner:
    """The names that the learner's notebook defines, as attributes."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        try:
            return self._namespace[name]
        except KeyError:
            raise NotDefined(f"The notebook defines no `{name}`: was its cell deleted, or did it fail?") from None


def scenario(name: str) -> Callable[[Learner, dict], dict]:
    """``run`` of the exercise ``<chapter>.<exercise>``. Raises LookupError when its module has none.

    Without such a module the exercise is questions to its function.
    """
    chapter, _, exercise = name.partition(".")
    module = run_module(chapter, exercise)
    found = imported(module)
    if found is None:
        return lambda learner, case: _asked(learner, case, exercise, file_of(module))
    run = getattr(found, "run", None)
    if not callable(run):
        raise LookupError(f"{file_of(module)} defines no function run(learner, case)")
    return run


def _asked(learner: Learner, case: dict, function: str, file: str) -> dict:
    if "calls" not in case:
        raise LookupError(f"its cases are no calls of {function}: write {file}")
    return answers.ask(getattr(learner, function), case, describe)


def run_case(name: str, namespace: Mapping[str, Any], inputs: bytes) -> bytes:
    """Run one case and encode its evidence; an exception of the learner's code becomes evidence, too.

    Keys of the evidence: ``background``, the kinds of background work that were detected; ``scenario_fault``, the
    line of the scenario that raised without any code of the notebook; ``unsent``, the evidence could not be encoded.
    """
    with fresh_settings(), detector.watch() as background:
        try:
            evidence = scenario(name)(Learner(namespace), wire.decode(inputs))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            evidence = {"raised": describe(error)} | _scenario_fault(error)
    evidence["background"] = sorted(set(background))
    with fresh_settings():
        try:
            return wire.encode(evidence)
        except Exception as error:  # too large, too deep, or a key that cannot be written
            return wire.encode({"raised": describe(error), "unsent": True})


def describe(error: BaseException) -> dict[str, Any]:
    """See :func:`autograder.protocol.errors.describe`."""
    return errors.describe(error, is_learners_file)


_GPULAB = os.path.dirname(gpulab.__file__) + os.sep
_OURS = str(ROOT) + os.sep
_CALLED_WRONG = re.compile(r"[\w.<>]+\(\) (takes|missing|got) ")


def _scenario_fault(error: BaseException) -> dict[str, str]:
    """``{"scenario_fault": place}`` where the innermost line of the course's or the notebook's code is the scenario's.

    A learner's function that does not take the arguments raises there too, and is no fault of it; nor is it
    where the learner's calls are nested too deeply for an instrument that watches them.
    """
    if isinstance(error, (NotDefined, KeyboardInterrupt)) or _CALLED_WRONG.match(errors.message(error)):
        return {}
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, RecursionError) and any(is_learners_file(frame.filename) for frame in frames):
        return {}
    for frame in reversed(frames):
        if (file := _of_scenario(frame.filename)) is not None:
            return {"scenario_fault": f"{file}:{frame.lineno}"}
        if is_learners_file(frame.filename) or frame.filename.startswith(_GPULAB):
            return {}
    return {}


def _of_scenario(file: str) -> str | None:
    """The path of a file of ``exercises/`` or of this package, from the course's folder on."""
    below = file.removeprefix(_OURS)
    return below if below != file and below.startswith(("exercises/", "autograder/runner/")) else None
