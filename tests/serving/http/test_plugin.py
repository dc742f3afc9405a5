"""A scheduler from a learner's file drives the server."""

import json

import httpx
import nbformat
import pytest

from autograder.authoring.text import read_text_notebook
from gpulab.serving import Budget
from gpulab.serving.http.plugin import scheduler
from gpulab.serving.http.setup import Setup
from tests.rooms import ROOT
from tests.serving.http.conftest import serving

MINE = """
from gpulab.serving import Plan
MOST = 1
class Single:
    "One after the other."
    def plan(self, waiting, running, blocks, budget):
        live = (*running, *waiting)[0]
        blocks.reserve(live, live.left)
        return Plan({live: min(live.left, MOST)})
def single(patience):
    return Single()
"""
HELPERS = """
from __future__ import annotations
from dataclasses import dataclass
FAR = float("inf")
try:
    import nothing_of_this_name
except ImportError:
    nothing_of_this_name = None
@dataclass
class Item:
    width: "int" = 7
left = (
    7
    % 4
)
TABLE = {}
TABLE["a"] = 5
LIST = [1]
LIST += [2]
report = TABLE["never"]
class Uses(Single):
    seen = (FAR, nothing_of_this_name, Item().width, left, TABLE["a"], len(LIST), __file__[-5:])
"""
NOT_PYTHON = ["for", "%%bash\nls -l | wc", "x = !ls", "Single?", "if True:\n    !ls"]
UNFINISHED = "import nowhere_at_all\n@nowhere_at_all.jit\ndef kernel(x):\n    return MOST"
CELLS = [
    "%matplotlib inline\n",
    "!ls\nimport os",
    MINE,
    UNFINISHED,
    HELPERS,
    *NOT_PYTHON,
    "report = single(1).never()\nprint(1 // 0)",
]


@pytest.fixture
def notebook(tmp_path):
    cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in CELLS]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps({"cells": [*cells, {"cell_type": "markdown", "source": ["# no code"]}]}))
    return path


def test_a_notebook_gives_its_definitions_and_is_not_run(notebook):
    assert type(scheduler(f"{notebook}:single(patience=3)")()).__name__ == "Single"


def test_what_the_call_needs_is_run_as_it_stands(notebook):
    assert scheduler(f"{notebook}:Uses")().seen == (float("inf"), None, 7, 3, 5, 2, "ipynb")


def test_a_cell_that_is_one_string_is_read_too(tmp_path):
    cell = {"cell_type": "code", "source": MINE + "\nassert 1 != 2 and '%d' % 3 == '3'\n"}
    (tmp_path / "one.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert type(scheduler(f"{tmp_path}/one.ipynb:single({{'a': 1}})")()).__name__ == "Single"


def test_a_file_may_have_neighbours_and_annotations_as_text(tmp_path):
    (tmp_path / "neighbour_of_mine.py").write_text(MINE)
    lines = (
        "from __future__ import annotations",
        "from dataclasses import dataclass",
        "from neighbour_of_mine import Single",
    )
    (tmp_path / "mine.py").write_text("\n".join([*lines, "@dataclass", "class Mine(Single):", "    width: int = 3"]))
    assert scheduler(f"{tmp_path}/mine.py:Mine")().width == 3


def test_a_cell_that_cannot_be_read_is_named_where_something_is_missing(notebook):
    with pytest.raises(ValueError, match="NameError.*cell 6 is not Python"):
        scheduler(f"{notebook}:Nobody")()


def test_the_exercises_own_notebook_drives_the_server(tmp_path):
    """The one that a learner downloads, with the function written: other exercises in it are not, and hold kernels."""
    notebook = nbformat.from_dict(read_text_notebook(ROOT / "exercises" / "engines" / "notebook.py"))
    nbformat.write(notebook, tmp_path / "engines.ipynb")
    setup = Setup(f"{tmp_path}/engines.ipynb:continuous_batcher(4)", blocks=64, size=4, context=200)
    with serving(setup) as served:
        ask = {"model": "tinyvla", "prompt": "move to the red block", "max_tokens": 4}
        assert httpx.post(f"{served.url}/v1/completions", json=ask).json()["usage"]["completion_tokens"] == 4


def test_the_servers_requests_are_driven_by_it(notebook):
    with serving(Setup(f"{notebook}:Single", blocks=64, size=4, context=200, budget=Budget(64, 8))) as served:
        ask = {"model": "tinyvla", "prompt": "move to the red block", "max_tokens": 4}
        assert httpx.post(f"{served.url}/v1/completions", json=ask).json()["usage"]["completion_tokens"] == 4
        assert served.metrics()["num_steps_total"] == 5 + 3, "one token a step: five of the prompt, three of the answer"


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("fastest", "a scheduler is static, continuous, chunked, or FILE"),
        ("nowhere.py:Mine", "of a file that is there"),
        ("{}:Nobody", "NameError"),
        ("{}:single()", "patience"),
        ("{}:MOST", "gives int; expected an object with plan"),
    ],
)
def test_what_plans_nothing_is_refused_before_the_server_starts(notebook, told, says):
    with pytest.raises(ValueError, match=says):
        Setup(told.format(notebook)).engine()


@pytest.mark.parametrize("fields", [{"blocks": 0}, {"queue": -1}, {"blocks": 3, "size": 4, "context": 13}])
def test_a_setup_that_cannot_run_is_refused(fields):
    with pytest.raises(ValueError):
        Setup(**fields)
