"""A function that is to be plain Python is asked in an interpreter that has no library, whatever it does to get at one."""

import functools
import importlib
import linecache
import os
import threading
from fractions import Fraction
from math import inf, isnan, nan, pi
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from autograder.judge.expect import error_problem
from autograder.protocol.plain import Other, value_of, written
from autograder.runner import interpreter
from autograder.runner.answers import NOT_ALONE, ask
from autograder.runner.background_work import detector
from autograder.runner.scenario_runner import describe


@pytest.fixture(autouse=True)
def ended():
    yield
    interpreter.close()


def asked(function, *questions, **case):
    case = {"calls": written(list(questions)), "libraries": [], "in_kernel": False} | case
    return ask(function, case, describe)


def answer(function, *arguments, **case):
    (found,) = asked(function, arguments, **case)["answers"]
    return found


def returned(function, *arguments, **case):
    return value_of(answer(function, *arguments, **case)["returned"])


def error(function, *arguments, **case):
    return answer(function, *arguments, **case)["error"]


def defined(source: str, name: str = "f"):
    """As a notebook's cell defines it."""
    file, namespace = f"<cell {hash(source):x}>", {"__name__": "__main__"}
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


class Thing:
    pass


ITSELF: list = []
ITSELF.append(ITSELF)
VALUES = {
    "numbers": ((1, True, 2.5, -inf, 2**64 - 1, None), [1, True, 2.5, -inf, 2**64 - 1, None]),
    "texts and containers": (
        ("a", [1, (2, 3)], {"b": {4: "c", None: 5}}),
        ["a", [1, [2, 3]], {"b": {4: "c", None: 5}}],
    ),
    "sets": ({1, 2}, {1, 2}),
    "the mark of what is not plain": ({"\0": 1}, {"\0": 1}),
    "a fraction": (Fraction(1, 3), Fraction(1, 3)),
    "pairs in a set, and as keys": ({(1, "a"): {(2, 3)}}, {(1, "a"): {(2, 3)}}),
    "ints of more than 64 bits": ([-(1 << 70), 10**40 + 1], [-(1 << 70), 10**40 + 1]),
    "an int of many digits": (1 << 20_000, Other("int beyond the range of floats")),
    "numbers at the range of floats": (
        [2**1023 - 1, 2**1023, -(2**1023), Fraction(10**400, 3), Fraction(3, 10**400)],
        [
            2**1023 - 1,
            *[Other("int beyond the range of floats")] * 2,
            Other("Fraction beyond the range of floats"),
            Fraction(3, 10**400),
        ],
    ),
    "a fraction of many digits": (Fraction(1, 10**5000), Other("Fraction too fine to be read")),
    "a list that holds itself": (ITSELF, Other("list")),
    "a class of the notebook's": (Thing(), Other(f"{Thing.__module__}.Thing")),
}


@pytest.mark.parametrize("in_kernel", [True, False])
@pytest.mark.parametrize("what", VALUES)
def test_what_a_function_returns_comes_back(what, in_kernel):
    given, expected = VALUES[what]
    assert returned(lambda: given, in_kernel=in_kernel) == expected


@pytest.mark.parametrize("text", ["1e99999999", "1/0", f"{10**400}/3"])
def test_no_text_is_taken_for_a_fraction_that_was_not_written_as_one(text):
    with pytest.raises(ValueError):
        value_of({"\0": ["fraction", text]})


@pytest.mark.parametrize("in_kernel", [True, False])
@pytest.mark.parametrize(("value", "named"), [((1, 2), "a tuple"), ({1}, "a set"), (None, "None")])
def test_where_an_error_is_expected_what_came_back_has_its_own_name(value, named, in_kernel):
    said = error_problem(answer(lambda x: x, value, in_kernel=in_kernel), "ValueError")
    assert said == f"The function returned {named}; expected ValueError."


def test_numbers_of_numpy_count_as_pythons():
    assert returned(lambda: [np.int64(3), np.float32(0.5), {np.int32(1): 2}], in_kernel=True) == [3, 0.5, {1: 2}]


def test_arguments_are_what_the_question_holds():
    look = lambda *given: [type(one).__name__ for one in given]
    given = (1, (2, [3]), {4: {5}}, inf, SimpleNamespace(a=1))
    assert returned(look, *given) == ["int", "tuple", "dict", "float", "SimpleNamespace"]
    assert isnan(returned(lambda x: x, nan))
    with pytest.raises(ValueError, match="numbers, texts"):
        written([(Thing(),)])


LIMIT = 3


@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


class Counter:
    def __init__(self, start):
        self.count = start

    def __call__(self):
        self.count += 1
        return self.count


def by_name(function):
    @functools.wraps(function)
    def called(*arguments):
        return [function.__name__, function(*arguments)]

    return called


@by_name
def decorated(n):
    return n + LIMIT


def test_what_a_function_names_goes_along():
    counter, table = Counter(LIMIT), {"a": [1]}
    assert returned(lambda: [LIMIT, pi, fibonacci(20), counter(), table["a"], decorated(1)]) == [
        3,
        pi,
        6765,
        4,
        [1],
        ["decorated", 4],
    ]


def test_a_module_that_was_handed_in_goes_along(tmp_path, monkeypatch):
    (tmp_path / "my_helper.py").write_text("import math\ndef double(n): return math.floor(2 * n)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    helper = importlib.import_module("my_helper")
    assert returned(lambda n: helper.double(n), 4) == 8
    assert returned(helper.double, 4) == 8


def test_it_is_asked_as_it_stands_then_and_keeps_what_it_does():
    counter = Counter(0)
    ask_it = lambda: counter()
    assert [returned(ask_it), returned(ask_it)] == [1, 2] and counter.count == 0


def from_a_path(folder=os.path.dirname(np.__path__[0])):
    import sys

    sys.meta_path.pop()
    sys.path.insert(0, folder)
    import numpy

    return numpy.array([1]).item()


FOLDER = os.path.dirname(np.__path__[0])


class Imported:
    """Asked for by the data that the function holds, before it is called."""

    def __reduce__(self):
        return eval, (f"__import__('sys').path.insert(0, {FOLDER!r}) or __import__('numpy')",)


def by_pickle(smuggled=Imported()):
    return smuggled.array([1]).item()


def by_a_command():
    import subprocess
    import sys

    return subprocess.check_output([sys.executable, "-c", "import numpy; print(1)"])


def by_a_fork():
    import os
    import sys

    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import numpy"])
    status = os.waitpid(pid, 0)[1]
    if status:
        raise OSError(status)


FORBIDDEN = {
    "a name": (lambda: torch.ones(1).tolist(), "torch.ones is not there"),
    "another name": (lambda: np.linalg.norm([3, 4]), "numpy.linalg.norm is not there"),
    "an array of the notebook's": (defined("import numpy\na = numpy.ones(3)\ndef f(): return a.sum()"), "numpy"),
    "an import": (defined("def f():\n    import torch\n    return 1"), "torch is not there"),
    "a path": (from_a_path, "numpy"),
    "a command": (by_a_command, ""),
    "a fork": (by_a_fork, ""),
    "a file": (lambda: open("/proc/self/maps").read(), "Too many open files"),
}


@pytest.mark.parametrize("way", FORBIDDEN)
def test_no_library_is_there_by_way_of(way):
    function, words = FORBIDDEN[way]
    assert words in error(function)["message"]


@pytest.mark.parametrize("way", ["a name", "an array of the notebook's", "an import", "a command", "a file"])
def test_in_the_kernel_it_is(way):
    assert "error" not in answer(FORBIDDEN[way][0], in_kernel=True)


def test_nor_by_data_that_imports_one():
    assert "numpy" in asked(by_pickle, ())["raised"]["message"]


def test_what_it_prints_and_reads_is_nobodys():
    speaking = defined("def f(n):\n    print('x' * 10_000)\n    try: return input()\n    except EOFError: return n")
    assert returned(speaking, 3) == 3


class Layer(torch.nn.Module):
    """A class that cannot be read where its base is not."""


def test_one_that_cannot_be_read_there_is_told_so():
    found = asked(lambda: Layer().weight, ())
    assert "torch" in (found.get("raised") or found["answers"][0]["error"])["message"]


def test_a_library_may_be_named_where_it_is_not_used():
    assert returned(lambda n: isinstance(n, (int, np.integer, torch.Tensor)) and n is not torch.float32, 3) is True
    assert returned(lambda n: isinstance(n, np.ndarray), 3) is False


def test_a_library_that_the_exercise_allows_is_there():
    assert returned(lambda: np.arange(4).sum() + LIMIT, libraries=["numpy"]) == 9
    assert "torch.ones" in error(lambda: torch.ones(1), libraries=["numpy"])["message"]


def test_an_exception_is_told_with_the_learners_line():
    function = defined("def f(n):\n    if n < 0:\n        raise ValueError('less than none')\n    return n")
    first, second = asked(function, (-1,), (1,))["answers"]
    assert first["error"] == {
        "type": "ValueError",
        "kinds": ["ValueError", "Exception", "BaseException", "object"],
        "message": "less than none",
        "line": "raise ValueError('less than none')",
    }
    assert second["returned"] == 1


def test_a_function_that_is_not_written_is_told_as_such():
    assert asked(defined("def f():\n    raise NotImplementedError"), ())["raised"]["type"] == "NotImplementedError"


def test_arguments_are_one_object_filled_anew_and_a_change_is_noticed():
    kept = {}
    found = asked(lambda xs: kept.setdefault(id(xs), list(xs)) and len(kept), ([1],), ([2],), ([3],))["answers"]
    assert [one["returned"] for one in found] == [1, 1, 1] and all(one["kept"] for one in found)
    found = asked(lambda xs, n: xs.append(n) if n else None, ([1], 0), ([1], 5), ([1], 0))["answers"]
    assert [one["kept"] for one in found] == [True, False, True]


def test_it_may_nest_as_many_calls_as_in_the_kernel():
    deep = defined("def f(n): return n and 1 + f(n - 1)")
    assert returned(deep, 700) == 700


def in_a_thread():
    thread = threading.Thread(target=list)
    thread.start()
    thread.join()
    return 1


def test_a_thread_of_its_own_is_background_work_and_the_interpreter_is_not():
    with detector.watch() as background:
        assert returned(lambda: 1) == 1
    assert background == []
    with detector.watch() as background:
        assert returned(in_a_thread) == 1
    assert background == ["thread"]


def test_one_that_ends_the_interpreter_is_told_so_and_the_next_is_asked():
    ends_itself = lambda n: os._exit(0) if n else 1
    assert "ended the interpreter" in asked(ends_itself, (1,))["raised"]["message"]
    assert returned(ends_itself, 0) == 1


def test_one_that_holds_what_cannot_be_sent_is_told_so(tmp_path):
    with open(tmp_path / "a", "w") as file:
        assert NOT_ALONE in asked(lambda: file.name, ())["raised"]["message"]


def test_an_interrupt_ends_it(monkeypatch):
    endless = lambda: [one for one in iter(int, 1)]
    opened = interpreter.interpreter_for(endless)
    monkeypatch.setattr(interpreter, "receive", lambda pipe: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        asked(endless, ())
    assert opened._process.poll() is not None


def test_a_process_forked_from_here_opens_its_own():
    ask_it = lambda: 1
    first = interpreter.interpreter_for(ask_it)
    first._owner -= 1  # as in a fork
    assert interpreter.interpreter_for(ask_it) is not first
    first._owner += 1
    first.close()


def test_nothing_is_left_of_it_once_it_is_closed():
    returned(lambda: 1)
    process = interpreter._open._process
    interpreter.close()
    assert process.poll() is not None and interpreter._open is None
