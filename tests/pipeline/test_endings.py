"""What it costs when a learner's code ends its own process, and what is said: the table in chapters/instructors/grading.md.

``patchify`` is called in the kernel, ``reduce_metrics`` in ranks; an exercise follows on each.
"""

import textwrap

import pytest
from nbformat.v4 import new_code_cell

from autograder.authoring.subset import write_subset
from autograder.core.ledger import Ledger
from autograder.notebooks.run import DIED, NOT_RUN
from tests.pipeline.conftest import ROOT, Course
from tests.pipeline.endings import AT_ANOTHER_MOMENT, OF_THE_CALL, OF_THE_PROCESS

IN_THE_KERNEL, IN_RANKS = (
    ("views.patchify", "views.compact"),
    ("data_parallel.reduce_metrics", "data_parallel.find_desync"),
)
OTHERS_OF_THE_PROCESS, OTHERS_OF_THE_CALL = list(OF_THE_PROCESS)[1:], list(OF_THE_CALL)[1:]


class Pair(Course):
    """Two exercises of a chapter as an assignment; the first is answered by what ends its process."""

    def __init__(self, root, exercises: tuple[str, str]) -> None:
        self.root, self.chapter, self.ledger = root, "pair", Ledger(root)
        write_subset(ROOT / "exercises", list(exercises), self.chapter, root)
        assert self.api().generate_assignment(self.chapter, force=True, create=True)["success"]
        self.first, self.second = (name.partition(".")[2] for name in exercises)

    def ended(self, learner: str, body: str, sandbox: str) -> tuple[float, float]:
        """What the two earned when the first has this body."""
        body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        return self.graded(learner, self.answered(**{self.first: f"def {self.first}(*given):\n{body}"}), sandbox)

    def graded(self, learner: str, notebook, sandbox: str) -> tuple[float, float]:
        self.hand_in(learner, notebook)
        assert self.autograde(learner, sandbox=sandbox)["success"]
        scores = self.scores(learner)
        return scores[f"{self.first}_hidden"], scores[f"{self.second}_hidden"]

    def said(self, learner: str, exercise: str) -> set[str]:
        """The sentences of its lost points."""
        lines = self.entry(learner)["verdicts"][f"{exercise}_hidden"]["lines"]
        return {line["message"] for line in lines if line["status"] == "lost"}

    @property
    def all_of_the_second(self) -> float:
        return self.full_marks()[f"{self.second}_hidden"]


@pytest.fixture(scope="module")
def in_the_kernel(tmp_path_factory) -> Pair:
    return Pair(tmp_path_factory.mktemp("in_the_kernel"), IN_THE_KERNEL)


@pytest.fixture(scope="module")
def in_ranks(tmp_path_factory) -> Pair:
    return Pair(tmp_path_factory.mktemp("in_ranks"), IN_RANKS)


def kernel_is_gone(pair: Pair, learner: str, sandbox: str) -> None:
    assert pair.ended(learner, OF_THE_PROCESS[learner], sandbox) == (0, 0)
    assert pair.said(learner, pair.first) == pair.said(learner, pair.second) == {f"{NOT_RUN} {DIED}"}
    assert pair.entry(learner)["outcome"] == "crashed"


def rank_is_gone(pair: Pair, learner: str, sandbox: str) -> None:
    assert pair.ended(learner, OF_THE_PROCESS[learner], sandbox) == (0, pair.all_of_the_second)
    for sentence in pair.said(learner, pair.first):  # of each hidden test the rank that was gone first
        assert sentence.startswith("Rank ") and ("did not return" in sentence or "was killed by SIG" in sentence)


def call_is_over(pair: Pair, learner: str, sandbox: str) -> None:
    assert pair.ended(learner, OF_THE_CALL[learner], sandbox) == (0, pair.all_of_the_second)
    assert any(
        sentence.startswith("The function raised SystemExit at `") for sentence in pair.said(learner, pair.first)
    )
    assert pair.entry(learner)["outcome"] == "ran"


@pytest.mark.parametrize("sandbox", ["required", "off"])
class TestAGoneProcess:
    def test_a_kernel_costs_its_exercise_and_what_is_behind_which_was_not_run(self, in_the_kernel, sandbox):
        kernel_is_gone(in_the_kernel, "os_exit", sandbox)
        assert in_the_kernel.feedback("os_exit").count(f"{NOT_RUN} {DIED}") > 1

    def test_a_rank_costs_its_exercise_alone(self, in_ranks, sandbox):
        rank_is_gone(in_ranks, "os_exit", sandbox)

    @pytest.mark.audit
    @pytest.mark.parametrize("ending", OTHERS_OF_THE_PROCESS)
    def test_a_kernel_does_so_in_whatever_way_it_went(self, in_the_kernel, sandbox, ending):
        kernel_is_gone(in_the_kernel, ending, sandbox)

    @pytest.mark.audit
    @pytest.mark.parametrize("ending", OTHERS_OF_THE_PROCESS)
    def test_a_rank_does_so_in_whatever_way_it_went(self, in_ranks, sandbox, ending):
        rank_is_gone(in_ranks, ending, sandbox)

    @pytest.mark.audit
    @pytest.mark.parametrize("moment", AT_ANOTHER_MOMENT)
    def test_a_rank_does_so_at_whatever_moment(self, in_ranks, sandbox, moment):
        notebook = in_ranks.answered()
        cell = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == in_ranks.first)
        ends = textwrap.indent(textwrap.dedent(AT_ANOTHER_MOMENT[moment]).strip(), "    ")
        cell.source += f"\nimport os\nright, calls = {in_ranks.first}, []\ndef {in_ranks.first}(*given):\n{ends}"
        first, second = in_ranks.graded(moment, notebook, sandbox)
        assert first < in_ranks.full_marks()[f"{in_ranks.first}_hidden"] and second == in_ranks.all_of_the_second
        assert any(
            said.startswith("Rank ") and "did not return" in said for said in in_ranks.said(moment, in_ranks.first)
        )

    @pytest.mark.audit
    def test_what_was_judged_before_the_kernel_was_gone_stays(self, in_the_kernel, sandbox):
        pair = in_the_kernel
        notebook = pair.answered(**{pair.second: "import os; os._exit(0)"})
        assert pair.graded("later", notebook, sandbox) == (pair.full_marks()[f"{pair.first}_hidden"], 0)
        assert pair.said("later", pair.second) == {f"{NOT_RUN} {DIED}"}


class TestAnExit:
    def test_is_an_exception_in_the_kernel(self, in_the_kernel):
        call_is_over(in_the_kernel, "exit_as_in_a_notebook", "required")

    def test_is_an_exception_in_a_rank(self, in_ranks):
        call_is_over(in_ranks, "sys_exit", "required")

    @pytest.mark.audit
    @pytest.mark.parametrize("sandbox", ["required", "off"])
    @pytest.mark.parametrize("ending", OTHERS_OF_THE_CALL)
    def test_is_so_in_whatever_way(self, in_the_kernel, in_ranks, sandbox, ending):
        for pair in (in_the_kernel, in_ranks):
            call_is_over(pair, ending, sandbox)

    @pytest.mark.audit
    def test_in_a_cell_of_ones_own_costs_nothing(self, in_the_kernel):
        notebook = in_the_kernel.answered()
        notebook.cells.insert(2, new_code_cell("exit()"))
        assert in_the_kernel.graded("leaves", notebook, "required") == tuple(in_the_kernel.full_marks().values())

    @pytest.mark.audit
    def test_does_not_call_what_waits_for_it(self, in_the_kernel):
        notebook = in_the_kernel.answered()
        notebook.cells.insert(2, new_code_cell("import atexit, os; atexit.register(os._exit, 7)"))
        assert in_the_kernel.graded("at_exit", notebook, "required") == tuple(in_the_kernel.full_marks().values())
