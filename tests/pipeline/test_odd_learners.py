"""Learners who tried things out in cells of their own lose nothing by it."""

import textwrap

import pytest
from nbformat.v4 import new_code_cell

from tests.exploits.conftest import autograde
from tests.pipeline.conftest import Course

TRIED = {
    "another_card": "gpulab.cuda.use('virtual:A10')",
    "the_card_off": "gpulab.cuda.use('off')",
    "default_device": "torch.set_default_device('cuda')",
    "default_dtype": "torch.set_default_dtype(torch.float64)",
    "no_gradients": "torch.set_grad_enabled(False)",
    "anomaly_detection": "torch.autograd.set_detect_anomaly(True)",
    "a_side_stream": "torch.cuda.set_stream(torch.cuda.Stream()); torch.cuda._sleep(10**9)",
    "seeds": "import random, numpy; random.seed(0), numpy.random.seed(0), torch.manual_seed(0)",
    "prints_a_lot": "print('step\\n' * 50_000)",
    "warnings_as_errors": "import sys, warnings; warnings.warn('careful'); print('oh', file=sys.stderr); warnings.simplefilter('error')",
    "plots": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()",
    "no_environment": "import os; os.environ.clear()",
    "another_folder": "import os, tempfile; os.chdir(tempfile.gettempdir())",
    "other_streams": "import io, sys; sys.stdout, sys.stderr = io.StringIO(), open('errors.txt', 'w')",
    "a_pool_of_threads": """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        print(list(pool.map(abs, range(100))))
    """,
    "a_cell_that_fails": "1 / 0",
}


FEW = ["another_card", "a_cell_that_fails", "no_environment"]
"""What is tried with every change."""


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Course:
    return odd_class(tmp_path_factory.mktemp("few"), "streams", FEW)


@pytest.fixture(scope="module", params=["hierarchy", "streams"])
def everyone(request, tmp_path_factory) -> Course:
    return odd_class(tmp_path_factory.mktemp("odd"), request.param, list(TRIED))


def odd_class(folder, chapter: str, learners: list[str]) -> Course:
    """One learner for each thing tried, in a cell behind the notebook's own setup."""
    course = Course(folder, chapter)
    for learner in learners:
        notebook = course.answered()
        setup = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells].index("setup")
        notebook.cells.insert(setup + 1, new_code_cell(textwrap.dedent(TRIED[learner]).strip()))
        course.hand_in(learner, notebook)
    autograde(course)
    return course


@pytest.mark.parametrize("learner", FEW)
def test_it_costs_nothing(few, learner):
    costs_nothing(few, learner)


@pytest.mark.audit
@pytest.mark.parametrize("learner", TRIED)
def test_nothing_that_learners_try_costs_anything(everyone, learner):
    costs_nothing(everyone, learner)


def costs_nothing(course: Course, learner: str) -> None:
    assert course.scores(learner) == course.full_marks()
    assert course.entry(learner)["incidents"] == []
