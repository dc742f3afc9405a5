"""What objects of the course's keep while a learner's code has them: there it can be edited before it is read.

A fact leaves the process when it is noted (:func:`autograder.protocol.event_sink.emit_note`), and what a later call turns on
lies in a closure or a generator. Constants may stay, set by ``__init__``: a width, a weight, a layer.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache, partial
from types import FrameType, FunctionType, MethodType
from typing import Any

import torch

from autograder.authoring.authored import SEEDS, AuthoredExercise
from autograder.authoring.traced import Seen, calls_traced, seen_in
from autograder.core.layout import ROOT
from autograder.notebooks.cells import solution_of
from gpulab.observe.lines import is_learners_file

EXEMPT = {
    "exercises.engines.run_played._Heard._asked": "it is the answer: the referee makes the same calls of an engine of its own",
}
"""By class and attribute, why it may be kept."""
_COURSE = tuple(f"{ROOT}/{folder}/" for folder in ("exercises", "autograder"))
_CHANGEABLE = (list, dict, set, bytearray)


def kept_by_handed_objects(authored: AuthoredExercise) -> list[str]:
    """``module.Class.attribute`` of what changes in objects that the solution is handed in its hidden tests, in ranks too."""
    return sorted(seen_in(_play, authored) - EXEMPT.keys())


def _play(authored: AuthoredExercise, seen: Seen) -> None:
    solution = solution_of(authored.notebook, authored.function)
    authored.begin()
    authored.go_on(solution, authored.check)
    with calls_traced(lambda frame: _look(frame, seen)):
        authored.lost(solution, SEEDS[0])


def _look(frame: FrameType, seen: Seen) -> None:
    if _is_called_by_the_course(frame):
        for place in changes_in(frame.f_locals.values()):
            seen.add(place)


def _is_called_by_the_course(frame: FrameType) -> bool:
    file, caller = frame.f_code.co_filename, frame.f_back
    if file == "<string>" or not is_learners_file(file):  # what dataclasses write is nobody's
        return False
    return caller is not None and caller.f_code.co_filename.startswith(_COURSE)


def changes_in(values: Iterable[Any]) -> Iterator[str]:
    """``module.Class.attribute`` of what changes in objects of the course's among ``values``, in containers and in each other."""
    seen, left = set(), list(values)
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, torch.Tensor):
            continue
        seen.add(id(value))
        left += _inside(value)
        for owner in _course_classes(type(value)):
            for name, in_init in _assigned(owner).items():
                held = getattr(value, "__dict__", {}).get(name)
                if isinstance(held, _CHANGEABLE) or not in_init and not isinstance(held, torch.Tensor):
                    yield f"{owner.__module__}.{owner.__qualname__}.{name}"


def _inside(value: Any) -> list:
    """What can be reached from it by an attribute, an item or a call."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, torch.nn.Module):
        return [*value.modules(), *vars(value).values()]
    return list(vars(value).values()) if any(_course_classes(type(value))) else []


def _course_classes(kind: type) -> Iterator[type]:
    """Those among its classes that the course wrote."""
    for owner in kind.__mro__:
        if str(getattr(sys.modules.get(owner.__module__), "__file__", "")).startswith(_COURSE):
            yield owner


def _methods(owner: type) -> list[FunctionType]:
    return [value for value in vars(owner).values() if isinstance(value, FunctionType)]


@cache
def _assigned(owner: type) -> dict[str, bool]:
    """The attributes that a class's methods set of their first parameter, each with whether ``__init__`` alone does."""
    names: dict[str, bool] = {}
    for function in _methods(owner):
        if function.__code__.co_filename.startswith(_COURSE):
            for name in _assigned_by(function):
                names[name] = names.get(name, True) and function.__name__ == "__init__"
    return names


def _assigned_by(function: FunctionType) -> Iterator[str]:
    written = ast.parse(textwrap.dedent(inspect.getsource(function)))
    first = function.__code__.co_varnames[:1]
    for node in ast.walk(written):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            if isinstance(node.value, ast.Name) and (node.value.id,) == first:
                yield node.attr
