"""What reading misses is told when it happens, if a learner's own line did it."""

import linecache
import sys
import tempfile
import types

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from autograder.core.flag import Flag
from autograder.flags.noticed import SOMEWHERE, flags_of_noticed, with_noticed
from autograder.protocol.channel import Noticed
from autograder.runner.noticed import KINDS, noticer
from gpulab.observe.authors import AuthorLedger

CELL = "/tmp/ipykernel_1/2.py"
SPELT_SO_THAT_READING_MISSES_IT = {
    "frames": "[f for n, f in vars(sys).items() if n == '_get' + 'frame'][0]()",
    "dynamic": "[f for n, f in vars(builtins).items() if n == 'ev' + 'al'][0]('1')",
    "system": "[f for n, f in vars(sys).items() if n == 'setpro' + 'file'][0](None)",
    "frames: a function's code": "getattr(len_of, '__co' + 'de__')",
    "frames: the heap": "[f for n, f in vars(gc).items() if n == 'get_obj' + 'ects'][0]()",
    "system: its own memory": "open('/'.join(['', 'pr' + 'oc', 'self', 'maps'])).close()",
    "system: a module written": "open(path, 'w').close()",
    "system: through Python": "made = [c for n, c in vars(threading).items() if n == 'Thr' + 'ead'][0](target=int); made.start(); made.join()",
    "system: a process": "[f for n, f in vars(subprocess).items() if n == 'ru' + 'n'][0](['true'])",
    "patch: a function's code": "setattr(len_of, '__co' + 'de__', (lambda: 1).__code__)",
    "patch: a module's class": "setattr(module, '__cl' + 'ass__', type('M', (type(module),), {}))",
    "system: raw memory": "[c for n, c in vars(ctypes).items() if n == 'c_' + 'int'][0].from_address(ctypes_address)",
}


class Told(list):
    """Of the cell: these tests' own lines are no library's either."""

    def append(self, one):
        if one.code in [line.strip()[:160] for line in linecache.getlines(CELL)]:
            super().append(one)


@pytest.fixture
def told(monkeypatch):
    found = Told()
    monkeypatch.setattr(noticer, "_told", set())
    noticer.begin(found.append)
    yield found
    noticer.end()


def run_as_a_cell(source, **more):
    import builtins
    import ctypes
    import gc
    import subprocess
    import threading

    linecache.cache[CELL] = len(source), None, source.splitlines(True), CELL
    held = ctypes.c_int(1)
    names = {
        "builtins": builtins,
        "ctypes": ctypes,
        "gc": gc,
        "subprocess": subprocess,
        "sys": sys,
        "threading": threading,
    }
    names |= more | {"module": types.ModuleType("theirs")}
    names |= {"path": f"{tempfile.mkdtemp()}/helper.py"}
    names |= {"len_of": lambda: 0, "ctypes_address": ctypes.addressof(held), "torch": torch, "__name__": "__main__"}
    exec(compile(source, CELL, "exec"), names)


@pytest.mark.parametrize("what", SPELT_SO_THAT_READING_MISSES_IT)
def test_it_is_told_with_kind_and_line(told, what):
    run_as_a_cell(f"x = 1\n{SPELT_SO_THAT_READING_MISSES_IT[what]}")
    assert (what.partition(":")[0], 2) in {(one.kind, one.line) for one in told}
    assert all(one.code == SPELT_SO_THAT_READING_MISSES_IT[what][:160] for one in told if one.line == 2)


@pytest.mark.parametrize(
    "honest",
    [
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = 0",
        "import collections\ncollections.namedtuple('A', 'x')",
        "import warnings\nwarnings.warn('x')",
        "import copy\ncopy.deepcopy([1])",
        "import functools\nfunctools.wraps(len)(lambda: 0)",
        "torch.ones(2).numpy()",
        "torch.utils.data.DataLoader([1, 2])",
        "import multiprocessing\nmultiprocessing.Value('i', 0)",
        "import tempfile\ntempfile.TemporaryDirectory().cleanup()",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_a_library_does_for_an_honest_line_is_not_told(told, honest):
    run_as_a_cell(honest)
    assert told == []


def test_a_learners_function_in_the_place_of_a_librarys_is_told(told, monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_allocated", torch.cuda.memory_allocated)
    run_as_a_cell("(lambda put, of: put(of, 'memory_' + 'allocated', lambda: 0))(setattr, torch.cuda)")
    noticer.look()
    assert [(one.kind, one.name, one.line) for one in told] == [("patch", "torch.cuda.memory_allocated", 1)]


def test_what_is_replaced_once_everything_was_looked_at_is_told(told, monkeypatch):
    noticer.remember()
    monkeypatch.setattr(torch.cuda, "memory_allocated", torch.cuda.memory_allocated)
    run_as_a_cell("(lambda put, of: put(of, 'memory_' + 'allocated', lambda: 0))(setattr, torch.cuda)")
    noticer.look()
    assert [(one.kind, one.name) for one in told] == [("patch", "torch.cuda.memory_allocated")]


def test_a_property_of_theirs_that_is_given_another_function_in_place_is_told(told, monkeypatch):
    monkeypatch.setattr(AuthorLedger, "sizes", property(len), raising=False)
    noticer.remember()
    run_as_a_cell(
        "(lambda theirs: type(theirs).__init__(theirs, lambda self: 0))(AuthorLedger.sizes)", AuthorLedger=AuthorLedger
    )
    noticer.look()
    assert [(one.kind, one.name) for one in told] == [("patch", f"{AuthorLedger.__module__}.AuthorLedger.sizes")]


def test_where_nothing_is_replaced_nothing_is_told(told):
    noticer.look()
    assert told == []


def test_the_same_line_is_told_once(told):
    run_as_a_cell("for i in range(9):\n    [f for n, f in vars(sys).items() if n == '_get' + 'frame'][0]()")
    assert len(told) == 1


def test_every_event_has_a_kind_of_flag():
    assert set(KINDS.values()) == {"frames", "dynamic", "system", "patch"}


def test_the_cell_is_the_one_that_holds_the_line():
    notebook = new_notebook(cells=[new_code_cell("x = 1"), new_code_cell("\n\ny = 2")])
    (flag,) = flags_of_noticed("views", notebook, [Noticed("frames", "sys._getframe", 1, "y = 2")])
    assert (flag.cell, flag.line) == ("cell 2", 3)


def test_a_line_that_no_cell_holds_is_flagged_all_the_same():
    (flag,) = flags_of_noticed("views", new_notebook(cells=[]), [Noticed("frames", "sys._getframe", 7, "made up")])
    assert (flag.cell, flag.line) == (SOMEWHERE, 7)


def test_what_was_read_already_is_not_said_twice():
    flag = Flag("views", "cell 2", 3, "frames", "sys._getframe", "x")
    assert with_noticed([flag], [Flag("views", "cell 2", 3, "frames", "sys._getframe: x", "x")]) == [flag]
