"""Plain Python is told from calls into PyTorch and NumPy."""

import cProfile
import ctypes
import math
import sys

import msgspec
import numpy as np
import pytest
import torch
from torch.utils._mode_utils import no_dispatch

import gpulab.units
from autograder.protocol.event_sink import sending_events
from autograder.runner.library_calls import gpulab_answers, library_calls
from gpulab.cards.multiprocessors import MULTIPROCESSORS
from gpulab.cuda.machine.allocator import Allocator
from gpulab.feeding import Loader, Stages, bounds, simulate
from gpulab.kernels.simt.occupancy import occupancy
from gpulab.parallel.checks import violations
from gpulab.parallel.mesh import mesh_groups
from gpulab.parallel.schedules import one_f_one_b
from gpulab.traces import read
from gpulab.traces.intervals import union
from gpulab.traces.self_times import nested
from tests.gates.threads import in_a_thread

ARRAY, TENSOR, BUFFER = np.zeros(3), torch.zeros(3), bytearray(6)


def hidden():
    with no_dispatch():
        torch.empty(3)


def by_attributes():
    """Strides from NumPy, in which no function is called."""
    array = np.ndarray((2, 3), np.uint8, BUFFER)
    array.shape = (3, 2)
    return array.strides


def unwatched(switch_off, switch_on):
    switch_off()
    TENSOR.view(3)
    switch_on()


def unwatched_by_setprofile():
    watcher = sys.getprofile()
    unwatched(lambda: sys.setprofile(None), lambda: sys.setprofile(watcher))


def unwatched_by_another_profiler():
    watcher, profile = sys.getprofile(), cProfile.Profile()
    unwatched(profile.enable, lambda: sys.setprofile(watcher))


def in_a_list():
    """Strides from an array that no variable names and no call makes."""
    array = list(map(np.ndarray, [(2, 3)], [np.uint8], [BUFFER]))
    array[0].shape = (3, 2)
    return array[0].strides


def deleted():
    array = np.ndarray((2, 3), np.uint8, BUFFER)
    strides = array.strides
    del array
    return strides


def kept_from_before():
    """An array made earlier: to set its shape makes another for a moment."""
    ARRAY.shape = (3, 1)
    ARRAY.shape = (3,)


class Mine(np.ndarray):
    pass


def of_a_class_of_its_own():
    return list(map(Mine, [(2, 3)], [np.uint8], [BUFFER]))[0].strides


def of_a_class_made_here():
    return list(map(type("Here", (np.ndarray,), {}), [(2, 3)], [np.uint8], [BUFFER]))[0].strides


def tensors_by_map():
    return list(map(torch.empty_strided, [(2,)], [(1,)]))


def under_another_name():
    module, name = vars(gpulab.units), gpulab.units.__name__
    module["__name__"] = "mine"
    try:
        return gpulab.units.plural(3, "time")
    finally:
        module["__name__"] = name


def unwatched_by_the_c_api():
    """The profiler's own setter, called from C."""
    call = ctypes.pythonapi.PyObject_Call
    call.argtypes, call.restype = [ctypes.py_object] * 3, ctypes.py_object
    watcher = sys.getprofile()
    call(sys.setprofile, (None,), {})
    gpulab.units.plural(3, "time")
    call(sys.setprofile, (watcher,), {})


class Asked(type):
    @property
    def __module__(cls):
        list(nested([]))
        return "builtins"


class Homeless(list, metaclass=Asked):
    """The profiler asks where it is from, and calls no profiler meanwhile."""


def unwatched_by_map():
    watcher = sys.getprofile()
    list(map(sys.setprofile, [None]))
    gpulab.units.plural(3, "time")
    list(map(sys.setprofile, [watcher]))


@pytest.mark.parametrize(
    ("call", "libraries"),
    [
        (in_a_list, {"numpy"}),
        (deleted, {"numpy"}),
        (kept_from_before, {"numpy"}),
        (of_a_class_of_its_own, {"numpy"}),
        (of_a_class_made_here, {"numpy"}),
        (lambda: list(map(np.add, [1], [2])), {"numpy"}),
        (tensors_by_map, {"torch"}),
        (under_another_name, {"gpulab"}),
        (unwatched_by_the_c_api, {"sys.setprofile"}),
        (unwatched_by_map, {"sys.setprofile"}),
        (lambda: Homeless().append(1), {"gpulab"}),
        (lambda: in_a_thread(lambda: union([])), {"gpulab"}),
        (lambda: sorted([math.prod([2, 3]), len("ab")]), set()),
    ],
)
def test_what_a_profiler_does_not_see_is_named_all_the_same(call, libraries):
    with library_calls("torch", "numpy", "gpulab") as called:
        call()
    assert libraries <= called and (libraries or not called)


ANSWERS = {
    "union": lambda: union([]),
    "nested": lambda: list(nested([])),
    "read": lambda: read([{"ph": "X", "cat": "kernel", "name": "mm", "ts": 1, "dur": 1}]),
    "bounds": lambda: bounds(Stages(step=1.0), Loader(0)),
    "simulate": lambda: simulate([], Loader(0)),
    "occupancy": lambda: occupancy(32, 0, 0, MULTIPROCESSORS[8, 0]),
    "violations": lambda: violations([["0F0", "0B0"]]),
    "one_f_one_b": lambda: one_f_one_b(2, 2),
    "mesh_groups": lambda: mesh_groups({"tp": 2}),
    "malloc": lambda: Allocator(1 << 30, lambda: None, lambda: None, lambda stream: None, lambda use: True).malloc(
        512, 0
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_answers_an_exercise_says_so_by_itself(answer):
    told = []
    with sending_events(told.append), gpulab_answers() as called:
        ANSWERS[answer]()
        ANSWERS[answer]()
    assert called == {"gpulab"} and [msgspec.msgpack.decode(record) for record in told] == [["library_call", "gpulab"]]


def test_answers_that_cannot_be_heard_any_more_count_as_given(monkeypatch):
    with gpulab_answers() as called:
        monkeypatch.setattr(sys, "audit", lambda *event: None)
        union([])
    assert called == {"gpulab"}


def test_nothing_is_said_where_nothing_answers():
    with gpulab_answers() as called:
        gpulab.units.plural(3, "time")
    assert called == set()


def test_classes_allocate_as_before_afterwards():
    with library_calls("torch", "numpy"):
        np.empty(3), torch.empty(3)
    with library_calls("torch", "numpy") as called:
        pass
    np.empty(3), torch.empty(3)
    assert called == set()


@pytest.mark.parametrize(
    ("call", "libraries"),
    [
        (lambda: sorted([math.prod([2, 3]), len("ab")]), set()),
        (lambda: torch.empty_strided((2,), (1,), device="meta"), {"torch"}),
        (lambda: TENSOR.view(3), {"torch"}),
        (lambda: np.empty(3), {"numpy"}),
        (lambda: ARRAY.reshape(3, 1), {"numpy"}),
        (lambda: np.lib.stride_tricks.as_strided(ARRAY, (2,), (8,)), {"numpy"}),
        (hidden, {"torch"}),
        (by_attributes, {"numpy"}),
        (unwatched_by_setprofile, {"sys.setprofile", "torch"}),
        (unwatched_by_another_profiler, {"sys.setprofile", "torch"}),
        (lambda: torch.Size([2, 3]), set()),
    ],
)
def test_the_library_that_was_called_is_named(call, libraries):
    with library_calls("torch", "numpy") as called:
        call()
    assert called == libraries


def test_a_profiler_that_was_there_is_put_back():
    def profiler(*arguments):
        pass

    sys.setprofile(profiler)
    with library_calls("torch"):
        pass
    found = sys.getprofile()
    sys.setprofile(None)
    assert found is profiler
