"""Exercises whose judges never end, or take too much: found by name for tests of the judges' bounds."""

import os
import time

from autograder.core.exercise import Case, Criterion, Exercise, Failure


def _busy(case, evidence):
    while True:
        pass


def _asleep(case, evidence):
    time.sleep(3600)


def _greedy(case, evidence):
    kept = []
    while True:
        kept.append(bytearray(1 << 26))


def _killed(case, evidence):
    os.kill(os.getpid(), 9)


def _right(case, evidence):
    if evidence["x"] != case.inputs["x"]:
        yield Failure("first", "not x")


def _wrong_in_itself(case, evidence):
    return [Failure("first", undefined)]  # noqa: F821


def _cases(sampler):
    yield Case(("first",), {"x": sampler.integer(1, 9)})
    yield Case(("second",), {"x": sampler.integer(1, 9)})


def _endless_cases(sampler):
    yield Case(("first",), {"x": 1})
    while True:
        pass


def _wrong_cases(sampler):
    yield Case(("first",), {"x": 1})
    yield Case(("second",), {"x": sampler.nothing_of_the_kind()})


_JUDGES = {
    "busy": _busy,
    "asleep": _asleep,
    "greedy": _greedy,
    "killed": _killed,
    "right": _right,
    "wrong": _wrong_in_itself,
}


def find(name: str) -> Exercise:
    criteria = (Criterion("first", 2, "the first"), Criterion("second", 1, "the second"))
    if name == "t.cases":
        return Exercise(criteria, _endless_cases, _right, name=name)
    if name == "t.wrong_cases":
        return Exercise(criteria, _wrong_cases, _right, name=name)
    return Exercise(criteria, _cases, _JUDGES[name.removeprefix("t.")], name=name)
