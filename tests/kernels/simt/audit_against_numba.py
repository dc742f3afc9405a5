"""The same source under Numba's own simulator and Numba's own type inference."""

import itertools
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from gpulab.kernels.simt import values
from tests.kernels.simt import corpus

numba = pytest.importorskip("numba", reason="numba is a test dependency: pip install -e .[test]")
CORPUS = Path(corpus.__file__)


def in_a_process_of_its_own(what: str, to: Path) -> Path:
    done = subprocess.run([sys.executable, str(CORPUS), what, str(to)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return to


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    to = in_a_process_of_its_own("simulate", tmp_path_factory.mktemp("simulator") / "out.npz")
    return dict(np.load(to))


@pytest.fixture(scope="module")
def interpreted():
    return corpus.results()


@pytest.mark.parametrize("name", list(corpus.cases()))
def test_the_interpreter_computes_what_numbas_simulator_does(name, simulated, interpreted):
    keys = [key for key in interpreted if key.split("/")[0] == name]
    assert keys and set(simulated) == set(interpreted)
    for key in keys:
        np.testing.assert_allclose(interpreted[key], simulated[key], rtol=1e-6, err_msg=key)


def test_every_kernel_of_the_corpus_writes_something(interpreted):
    for name, (_, _, _, _, arguments) in corpus.cases().items():
        before = {f"{name}/{i}": a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
        assert any((interpreted[key] != array).any() for key, array in before.items()), name


def test_numba_infers_the_types_of_every_kernel_that_the_interpreter_accepts(tmp_path):
    said = json.loads(in_a_process_of_its_own("types", tmp_path / "said.json").read_text())
    assert set(said) == set(corpus.cases()) | set(corpus.warp_cases())
    assert {name: text for name, text in said.items() if text != "typed"} == {}


# ---- what an operation on two kinds of number gives

KINDS = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
OPERATIONS = {
    "+": (lambda a, b: a + b, values.BINARY),
    "/": (lambda a, b: a / b, values.BINARY),
    "//": (lambda a, b: a // b, values.BINARY),
    "%": (lambda a, b: a % b, values.BINARY),
    "&": (lambda a, b: a & b, values.BINARY),
    "<<": (lambda a, b: a << b, values.BINARY),
}
_NODE = {"+": "Add", "/": "Div", "//": "FloorDiv", "%": "Mod", "&": "BitAnd", "<<": "LShift"}


def numbas_result(function, *kinds) -> str | None:
    types = tuple(getattr(numba, "boolean" if kind == "bool" else kind) for kind in kinds)
    compiled = numba.njit(function)
    try:
        compiled.compile(types)
    except numba.core.errors.NumbaError:
        return None
    return str(compiled.nopython_signatures[0].return_type)


def our_result(symbol: str, *kinds) -> str | None:
    import ast

    operate = values.BINARY[getattr(ast, _NODE[symbol])]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        try:
            return str(operate(*(np.ones(2, kind) for kind in kinds)).dtype)
        except TypeError:
            return None


@pytest.mark.parametrize("symbol", list(OPERATIONS))
def test_two_kinds_of_number_give_the_kind_that_numba_gives(symbol):
    function = OPERATIONS[symbol][0]
    pairs = [("int32", "uint8"), ("uint32", "uint64"), ("float32", "int64"), ("bool", "bool")]
    pairs += [pair for i, pair in enumerate(itertools.product(KINDS, KINDS)) if i % 3 == 0]
    for pair in pairs:
        assert our_result(symbol, *pair) == numbas_result(function, *pair), (symbol, pair)


def test_float32_to_a_whole_power_stays_float32():
    assert numbas_result(lambda a, b: a**b, "float32", "int64") == "float32"
    assert values.power(np.ones(2, np.float32), np.int64(2)).dtype == np.float32
    assert values.power(np.ones(2, np.int64), np.int64(2)).dtype == np.int64


UNARY = {
    "~": (lambda a: ~a, "Invert"),
    "-": (lambda a: -a, "USub"),
    "+": (lambda a: +a, "UAdd"),
    "not": (lambda a: not a, "Not"),
}


@pytest.mark.parametrize("symbol", list(UNARY))
@pytest.mark.parametrize("kind", KINDS)
def test_an_operation_on_one_number_gives_what_numba_gives(symbol, kind):
    import ast

    function, node = UNARY[symbol]
    expected = numbas_result(function, kind)
    if expected is None:
        with pytest.raises(TypeError):
            values.UNARY[getattr(ast, node)](np.ones(2, kind))
        return
    for number in (0, 1, 128):
        ours = values.UNARY[getattr(ast, node)](np.array([number]).astype(kind))
        assert str(ours.dtype) == expected and ours[0] == numba.njit(function)(np.array([number]).astype(kind)[0])


@corpus.cuda.jit
def where_not(out, x):
    i = corpus.cuda.grid(1)
    if ~(x[i] > 31):
        out[i] = 1


def test_a_comparison_turned_round_with_a_tilde_is_a_condition():
    out, x = np.zeros(64), np.arange(64.0)
    where_not[1, 64](out, x)
    assert out.sum() == 32
