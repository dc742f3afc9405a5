"""The page "A term": every command of it, in its order, in a course of two learners."""

import csv
import re
import shutil
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.core.ledger import Ledger
from tests.pipeline.shell import typed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "chapters" / "instructors" / "term.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(sh|python|text)\n(.*?)^```$", PAGE, flags=re.M | re.S)
LEARNER = "# the learner, in a folder of their own\n"


class Term:
    """The course folder, ada's own folder, and what each command said."""

    def __init__(self, folder: Path) -> None:
        self.course, self.learner = folder / "course", folder / "ada"
        exchange = folder / "exchange"
        for made in (self.course, self.learner, exchange):
            made.mkdir()
        exchange.chmod(0o777)
        self.said: dict[str, str] = {}
        config = [code for kind, code in BLOCKS if kind == "python" and code.startswith("# nbgrader_config.py")]
        config = "".join(config).replace("/srv/nbgrader/exchange", str(exchange))
        ours = (ROOT / "nbgrader_config.py").read_text().replace("Path(__file__).parent", f"Path({str(ROOT)!r})")
        (self.course / "nbgrader_config.py").write_text(f"{ours}\n{config}\nsys.path.insert(0, {str(self.course)!r})\n")
        (self.learner / "nbgrader_config.py").write_text(
            f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.student_id = 'ada'\n"
        )
        students = next(code for kind, code in BLOCKS if kind == "text" and code.startswith("id,"))
        (self.course / "students.csv").write_text(students)

    def play(self) -> None:
        for kind, code in BLOCKS:
            if kind == "sh":
                folder = self.learner if code.startswith(LEARNER) else self.course
                for line in filter(None, re.sub(r"\\\n\s*", "", code.replace(LEARNER, "")).split("\n")):
                    self.type(line, folder)
            elif code.startswith("# late.py"):
                (self.course / "late.py").write_text(code)
            elif code.startswith("# in the course folder"):
                exec(code.replace("sqlite:///gradebook.db", f"sqlite:///{self.course}/gradebook.db"), {})

    def type(self, line: str, folder: Path) -> None:
        if line.startswith("python -m autograder collect"):
            path = self.course / "bobs" / "views.ipynb"
            self.answer(path, {"patchify": "def patchify(images, patch):\n    return images"})
            with zipfile.ZipFile(self.course / "hand-ins.zip", "w") as archive:
                archive.write(path, "bitdiddlebob_77_1_views.ipynb")
        if line.startswith("make "):
            return  # typed in the repository: test_graded_edition.py does
        if line.startswith("python -m autograder marking serve"):
            self.served = self.served_for_a_while(line)
            return
        who = {} if folder == self.learner else {"COURSE": str(self.course)}
        status, self.said[line] = typed(line, folder, PYTHONPATH=str(ROOT), **who)
        assert status == 0, f"{line}\n{self.said[line]}"
        if line.startswith("nbgrader fetch_assignment"):
            self.answer(self.learner / "views/views.ipynb", {})
        if line.startswith("nbgrader collect"):
            (self.course / "submitted/ada/views/timestamp.txt").write_text("2026-10-14 00:10:00 UTC")
        if line.startswith("python -m autograder collect"):
            (self.course / "submitted/bob/views/timestamp.txt").write_text("2026-10-12 12:00:00 UTC")

    def served_for_a_while(self, line: str) -> str:
        line = f"timeout --preserve-status --signal=TERM 15 {line.replace('python', sys.executable, 1)} --port 0"
        status, said = typed(line, self.course, PYTHONPATH=str(ROOT), COURSE=str(self.course))
        assert status == 0, said
        return said

    def answer(self, path: Path, cells: dict[str, str]) -> None:
        """The release with the course's solutions, those in ``cells`` replaced."""
        name = f"{path.parent.name}/{path.name}" if path.stem == "week2" else "views/views.ipynb"
        release, source = (nbformat.read(self.course / kind / name, as_version=4) for kind in ("release", "source"))
        for cell, solved in zip(release.cells, source.cells, strict=True):
            nbgrader = cell.metadata.get("nbgrader", {})
            if nbgrader.get("solution"):
                cell.source = cells.get(nbgrader["grade_id"], solved.source)
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(release, path)

    def table(self, name: str) -> list[dict]:
        with open(self.course / name, newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def term(tmp_path_factory) -> Term:
    term = Term(tmp_path_factory.mktemp("term"))
    term.play()
    return term


def test_both_ways_of_handing_in_are_graded(term):
    entries = {entry.student: entry for entry in Ledger(term.course).entries("views")}
    assert {who: entry.state for who, entry in entries.items()} == {"ada": "graded", "bob": "graded"}
    assert not any(verdict.score for name, verdict in entries["bob"].verdicts.items() if name == "patchify_hidden")


def test_the_late_penalty_of_the_page_is_a_tenth_for_each_day_begun(term):
    with Gradebook(f"sqlite:///{term.course}/gradebook.db") as gradebook:
        ada = gradebook.find_submission("views", "ada")
        assert ada.score == ada.max_score and ada.late_submission_penalty == pytest.approx(0.1 * ada.score)
        assert not gradebook.find_submission("views", "bob").late_submission_penalty


def test_manual_points_and_the_comment_hold_against_a_later_grading(term):
    with Gradebook(f"sqlite:///{term.course}/gradebook.db") as gradebook:
        grade = gradebook.find_grade("patchify_hidden", "views", "views", "bob")
        assert (grade.auto_score, grade.manual_score, grade.extra_credit, grade.score) == (
            0,
            5,
            1,
            6,
        ) and grade.needs_manual_grade
    assert "see the second hint" in (term.course / "feedback/bob/views/views.html").read_text()


def test_the_learner_gets_the_feedback(term):
    (page,) = (term.learner / "views" / "feedback").rglob("views.html")
    assert "Late submission" in page.read_text()


def test_the_marking_service_listens_for_the_students_of_the_gradebook(term):
    assert re.search(r"Marking at http://127\.0\.0\.1:\d+, \d+ at once\. Tries: 5, views 10\.", term.served)
    assert [row["id"] for row in term.table("tokens.csv")] == ["ada", "bob"]


def test_a_subset_holds_its_exercises_alone(term):
    notebook = nbformat.read(term.course / "release/week2/week2.ipynb", as_version=4)
    ids = [cell.metadata["nbgrader"]["grade_id"] for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert ids == ["setup", "patchify", "patchify_seen", "patchify_hidden", "compact", "compact_seen", "compact_hidden"]
    assert "E1.1" not in nbformat.writes(notebook) and "Tensors are views" in notebook.cells[0].source


def test_a_subset_is_graded(term):
    term.answer(term.course / "submitted/bob/week2/week2.ipynb", {"compact": "def compact(x):\n    return x"})
    status, said = typed(
        "nbgrader autograde week2 --student=bob", term.course, PYTHONPATH=str(ROOT), COURSE=str(term.course)
    )
    assert status == 0, said
    scores = {
        grade_id: verdict.score for grade_id, verdict in Ledger(term.course).read("week2", "bob").verdicts.items()
    }
    assert scores["patchify_hidden"] > 0 and scores["compact_hidden"] == 0


def test_criteria_are_columns(term):
    ada, bob = (
        [line for line in term.table("criteria.csv") if line["student"] == who and line["assignment"] == "views"]
        for who in ("ada", "bob")
    )
    assert [float(line[0]["views.patchify: no_copy"]) for line in (ada, bob)] == [3, 0]
    columns = [column for column in ada[0] if column.startswith("views.")]
    assert sum(float(ada[0][column]) for column in columns) == float(ada[0]["max_score"])


def test_moodle_and_canvas_get_one_line_a_learner_and_the_score_with_penalty_and_manual_points(term):
    moodle = {line["ID number"]: line for line in term.table("moodle.csv")}
    canvas = {line["SIS Login ID"]: line for line in term.table("canvas.csv")}
    totals = {line["student_id"]: line["score"] for line in term.table("grades.csv") if line["assignment"] == "views"}
    for who in ("ada", "bob"):
        assert float(moodle[who]["views"]) == float(canvas[who]["views"]) == float(totals[who]) > 0
    assert moodle["ada"]["Email address"] == "ada@example.org" and canvas["ada"]["Student"] == "Lovelace, Ada"
    assert (
        canvas[""]["Student"] == "    Points Possible"
        and float(canvas[""]["views"]) == float(canvas["ada"]["views"]) / 0.9
    )
    assert list(canvas["ada"])[:4] == ["Student", "ID", "SIS Login ID", "Section"]


def test_cells_that_agree_are_named_and_one_that_differs_is_not(term):
    said = next(text for line, text in term.said.items() if " similar " in line)
    assert "compact: ada, bob" in said and "patchify: ada, bob" not in said


def test_broken_hidden_tests_are_looked_for_and_none_found(term):
    assert next(text for line, text in term.said.items() if line.startswith("grep")) == "none\n"


def test_no_block_of_the_page_is_left_out():
    known = ("# late.py", "# nbgrader_config.py", "# in the course folder")
    assert all(kind != "python" or code.startswith(known) for kind, code in BLOCKS)
    assert len([kind for kind, _ in BLOCKS if kind == "sh"]) > 12


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "python -m autograder source --only views.patchifi --name w",
            "no exercise views.patchifi; there are: views.predict_view",
        ),
        ("python -m autograder source --only views.patchify", "--name NAME are needed"),
        ("python -m autograder source --only views.patchify streams.train --name w", "an assignment has one chapter's"),
        ("python -m autograder source --only views.patchify --name views", "'views' is a chapter"),
        ("python -m autograder similar none_such", "0 submissions of 'none_such'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(term, line, says):
    status, said = typed(line, term.course, PYTHONPATH=str(ROOT), COURSE=str(term.course))
    assert status == 2 and says in said and "Traceback" not in said


def test_a_broken_judge_is_found_by_the_pages_grep(term):
    copy = shutil.copytree(term.course / "ledger", term.course / "other" / "ledger").parent
    ledger = Ledger(copy)
    entry = ledger.read("views", "bob")
    entry.broken = ["the judge of views.patchify failed at exercises/views/patchify/judge.py:71 (KeyError: 'image')"]
    ledger.write(entry)
    line = next(line for line in term.said if line.startswith("grep"))
    assert typed(line, copy)[1] == "ledger/views/bob.json\n"
