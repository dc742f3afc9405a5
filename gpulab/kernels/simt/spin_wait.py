"""Loops in which a thread waits until another changes memory: locks, flags."""

import ast

from gpulab.kernels.simt.intrinsics import DeviceFunction, Operation

TURNS_IN_LOCKSTEP = 256
TURNS_ALONE = 8


class SpinWait(Exception):
    """In lockstep threads wait for others of their group: the launch begins again, warp by warp."""


def may_wait(expressions, node: ast.While) -> bool:
    """Whether what memory holds decides when the loop ends. Says so for the whole kernel."""
    found = _looks(expressions, node.test) or any(_looks(expressions, value) for value in _deciding(node))
    expressions.places.may_spin |= found
    return found


def _deciding(node: ast.While) -> list[ast.expr]:
    """Values that the body gives to names of the loop's test; all of its tests under ``while True``."""
    if isinstance(node.test, ast.Constant):
        return [part for sub in ast.walk(node) for part in _conditions(sub)]
    names = {sub.id for sub in ast.walk(node.test) if isinstance(sub, ast.Name)}
    given = [sub for sub in ast.walk(node) if isinstance(sub, (ast.Assign, ast.AugAssign))]
    found = [sub.value for sub in given if names & {n.id for n in ast.walk(sub) if isinstance(n, ast.Name)}]
    # A flag such as ``done`` is often set under a test of memory.
    return found + [sub.test for sub in ast.walk(node) if isinstance(sub, ast.If)]


def _conditions(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If):
        return [node.test]
    return [node.value] if isinstance(node, (ast.Assign, ast.AugAssign)) else []


def _looks(expressions, node: ast.expr) -> bool:
    return any(
        isinstance(sub, ast.Subscript) or isinstance(sub, ast.Call) and _reads(expressions, sub)
        for sub in ast.walk(node)
    )


def _reads(expressions, node: ast.Call) -> bool:
    thing = getattr(expressions.static_or_closure(node.func), "thing", None)
    return isinstance(thing, DeviceFunction) or isinstance(thing, Operation) and bool(thing.touches)


class Patience:
    """One loop's: how many turns in a row nothing has changed."""

    def __init__(self, launch) -> None:
        self._progress, self._idle = launch.progress, 0

    def lasts(self, group, all_stay: bool) -> bool:
        """After a turn: whether the loop may go on. Raises SpinWait to have the launch begin again."""
        launch, turns = group.launch, group.batch.turns
        self._idle = self._idle + 1 if all_stay and launch.progress == self._progress else 0
        self._progress = launch.progress
        if self._idle < (TURNS_IN_LOCKSTEP if turns is None else TURNS_ALONE):
            return True
        self._idle = 0
        if turns is None:
            raise SpinWait
        return turns.pass_on(group)
