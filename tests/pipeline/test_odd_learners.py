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
    "a_pool_of_threads": """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        print(list(pool.map(abs, range(100))))
    """,
    "a_cell_that_fails": "1 / 0",
}


@pytest.fixture(scope="module", params=["hierarchy", "streams"])
def odd_class(request, tmp_path_factory) -> Course:
    """One learner for each thing tried, in a cell behind the notebook's own setup."""
    course = Course(tmp_path_factory.mktemp("odd"), request.param)
    for learner, code in TRIED.items():
        notebook = course.answered()
        setup = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells].index("setup")
        notebook.cells.insert(setup + 1, new_code_cell(textwrap.dedent(code).strip()))
        course.hand_in(learner, notebook)
    autograde(course)
    return course


@pytest.mark.parametrize("learner", TRIED)
def test_it_costs_nothing(odd_class, learner):
    assert odd_class.scores(learner) == odd_class.full_marks()
    assert odd_class.entry(learner)["incidents"] == []
