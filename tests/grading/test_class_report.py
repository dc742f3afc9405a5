"""The instructor's page of a class: what it counts, whom it names, and what it never lets in."""

import csv
import json
import re

import pytest
from nbgrader.api import Gradebook

from autograder.core.flag import Flag
from autograder.core.layout import ROOT
from autograder.core.ledger import Entry, Ledger
from autograder.core.verdict import Line, Verdict
from autograder.instructor import named as of_named
from autograder.instructor.command import run
from autograder.instructor.named import Named
from autograder.instructor.page import page
from autograder.instructor.standing import outcome, standing
from autograder.misconceptions.sentences import MISCONCEPTIONS, read_misconceptions
from autograder.nbgrader.gradebook import find_alembic
from autograder.notebooks.run import NOT_RUN
from tests.screens import px_beyond

SAYS = {"values": "every patch holds its own pixels", "no_copy": "no byte is copied"}
SAID = read_misconceptions(ROOT / "exercises" / "views" / "patchify" / MISCONCEPTIONS).misconceptions
CUT = """[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .map(one => one.className)"""
A4 = {"width": 703, "height": 1032}
"""CSS pixels inside the margins of the page's own style."""


def verdict(by="", **told):
    """Of ``views.patchify``; a criterion that is named was lost, and this is what its learner was told. ``by``: a misconception."""
    return Verdict(
        "views.patchify",
        tuple(
            Line(name, says, 2, "lost" if name in told else "earned", told.get(name, ""), by if name in told else "")
            for name, says in SAYS.items()
        ),
    )


def entry(student, by="", **told):
    return Entry("views", student, "graded", verdicts={"patchify_hidden": verdict(by, **told)})


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Four learners: ada lost nothing, bob and cyd a copy, dan everything; eve's work is not graded yet."""
    monkeypatch.chdir(tmp_path)
    dan = entry(
        "dan",
        values="The pixels are wrong: 'hi <script>alert(1)</script>'",
        no_copy="Not judged until this holds: every patch.",
    )
    dan.outcome, dan.notes, dan.incidents = (
        "timed out",
        ["A cell ran for more than 4 s."],
        ["sent a message of another exercise"],
    )
    for one in (
        entry("ada"),
        entry("bob", no_copy="768 B were copied."),
        entry("cyd", no_copy="1,024 B were copied."),
        dan,
    ):
        Ledger(tmp_path).write(one)
    for student in ("ada", "bob", "cyd", "dan", "eve"):
        (tmp_path / "submitted" / student / "views").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def misled(course):
    """Three more: fay and gus have the first misconception of the list, fay in both criteria; hal has the second."""
    first, second = SAID[:2]
    Ledger(course).write(entry("fay", first.key, values="Wrong.", no_copy="768 B were copied."))
    Ledger(course).write(entry("gus", first.key, values="Wrong."))
    Ledger(course).write(entry("hal", second.key, values="Wrong."))
    return course


@pytest.fixture
def gradebook(course):
    """A due date and five students, ivy among them, who handed nothing in; dan came late."""
    find_alembic()
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        gradebook.add_assignment("views", duedate="2026-10-12 23:59:00 UTC")
        for student in ("ada", "bob", "cyd", "dan", "ivy"):
            gradebook.add_student(student)
    (course / "submitted/bob/views/timestamp.txt").write_text("2026-10-12 23:59:00 UTC")
    (course / "submitted/dan/views/timestamp.txt").write_text("2026-10-14 02:10:00 UTC")


def written(found):
    return page(found, Named(found), 2 if found.anonymous else 1)


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def grouped(found):
    return {group.title: group.remarks for group in found.groups}


def test_learners_stand_by_points_and_who_is_not_graded_is_counted(course):
    found = standing(course, "views")
    assert [(one.name, one.score) for one in found.learners] == [("ada", 4), ("bob", 2), ("cyd", 2), ("dan", 0)]
    assert (found.median, found.max_score) == (2, 4)
    assert grouped(found) == {"Not graded yet": {"eve": ""}}
    assert found.by_tenths() == [1, 0, 0, 0, 0, 2, 0, 0, 0, 1]


def test_sentences_that_differ_in_their_figures_are_one(course):
    lost = standing(course, "views").lost_without_a_name()
    assert [(row.criterion, len(row.unnamed)) for row in lost] == [("no_copy", 2), ("values", 1)]
    assert lost[0].sentences() == [("768 B were copied.", [1, 2])]


def test_what_was_not_judged_is_nobodys_misconception(course):
    (_, no_copy) = standing(course, "views").rows
    assert [no_copy.counts[kind] for kind in ("earned", "lost", "not judged")] == [1, 2, 1]
    dan = written(standing(course, "views")).split('<table class="map">')[1].split(">dan</span>")[1]
    assert re.findall(r'<td class="([\w-]+)"', dan)[:2] == ["lost", "not-judged"]


def test_a_test_that_did_not_run_was_not_lost():
    assert outcome(Line("values", "", 2, "lost", NOT_RUN)) == "not judged"


def test_a_misconception_is_named_with_who_has_it_the_most_frequent_first(misled):
    first, second = Named(standing(misled, "views")).shown
    assert (first.said, first.letter, [one.name for one in first.learners], first.of) == (
        SAID[0],
        "A",
        ["gus", "fay"],
        7,
    )
    assert (second.said, second.letter, [one.name for one in second.learners]) == (SAID[1], "B", ["hal"])


def test_sections_are_counted_by_learners_and_not_by_losses(misled):
    assert [(one.title, one.learners) for one in Named(standing(misled, "views")).sections] == [
        (SAID[0].read, 2),
        (SAID[1].read, 1),
    ]
    assert "<strong>2 of 7</strong>" in written(standing(misled, "views"))


def test_what_has_a_name_is_not_among_what_has_none(misled):
    lost = {row.criterion: len(row.unnamed) for row in standing(misled, "views").lost_without_a_name()}
    assert lost == {"no_copy": 2, "values": 1}


def test_a_misconception_that_the_exercise_has_dropped_is_shown_as_the_ledger_knows_it(course):
    dropped = Line("values", SAYS["values"], 2, "lost", "You turn the patches.", "turns_the_patches", "Strides")
    Ledger(course).write(Entry("views", "fay", "graded", verdicts={"h": Verdict("views.patchify", (dropped,))}))
    (shown,) = Named(standing(course, "views")).shown
    assert (shown.said.name, shown.said.says, shown.said.read) == (
        "turns the patches",
        "You turn the patches.",
        "Strides",
    )


def test_files_of_the_course_are_read_once_however_many_learners_there_are(misled, monkeypatch):
    for number in range(60):
        Ledger(misled).write(entry(f"more{number}", SAID[number % 9].key, values="Wrong."))
    read = []
    monkeypatch.setattr(of_named, "read_misconceptions", lambda path: read.append(path) or read_misconceptions(path))
    html = written(standing(misled, "views"))
    assert len(read) == 1 and html.count('<th scope="row" class="who">') == 2 * 67


def test_whoever_is_in_no_figure_is_named_with_the_reason(course, gradebook):
    for one in (
        Entry(
            "views", "joe", "graded", "not graded", notes=["Not graded: The file is no notebook: hand in the .ipynb."]
        ),
        Entry("views", "kim", "failed"),
        Entry("views", "lou", "graded", "crashed"),
    ):
        Ledger(course).write(one)
    Ledger(course).path("views", "max").write_text("{")
    assert grouped(standing(course, "views")) == {
        "Handed nothing in": {"ivy": ""},
        "Not graded yet": {"eve": ""},
        "Could not be graded": {"joe": "The file is no notebook: hand in the .ipynb."},
        "Grading did not end": {"kim": "failed"},
        "Nothing was judged": {"lou": "crashed"},
        "Entries that cannot be read": {"max": ""},
        "Late": {"dan": "1 d 2 h"},
    }
    html = written(standing(course, "views"))
    assert all(f">{student}<" in html for student in ("ivy", "eve", "joe", "kim", "lou", "max"))


def test_without_a_gradebook_the_page_says_what_is_not_known_and_none_is_made(course):
    assert "There is no gradebook here" in written(standing(course, "views"))
    assert not (course / "gradebook.db").exists()


def test_a_gradebook_that_cannot_be_read_is_none(course):
    (course / "gradebook.db").write_text("no database, whatever it is called: " * 40)
    assert "There is no gradebook here" in written(standing(course, "views"))


def test_the_page_says_what_to_teach_again(course):
    assert "When does <code>view</code> work?" in written(standing(course, "views"))


def test_what_a_learner_wrote_is_text_and_the_page_runs_nothing(course):
    fay = entry("fay<i>", values="<b>'\x1b[2J")
    fay.flags = [Flag("views", "<u>", 3, "system", "<s>", "<q>")]
    Ledger(course).write(fay)
    html = written(standing(course, "views"))
    assert "&lt;script&gt;" in html and "<script" not in html and "default-src 'none'" in html
    assert not re.search(r"<[biqsu]>|\x1b", html) and "&lt;q&gt;" in html


def test_an_anonymous_report_names_nobody_and_quotes_nobody(course):
    assert run(course, "views", anonymous=True) == 0
    for file in ("views-anonymous.html", "views-anonymous.csv"):
        text = (course / "reports" / file).read_text()
        assert not re.search(r"\b(ada|bob|cyd|dan|eve)\b", text)
        assert "Learner 4" in text and re.search(r"(768|1,024) B were copied\.", text)
        assert "The pixels are wrong" not in text and "A cell ran" not in text and "another exercise" not in text


def test_numbers_are_drawn_and_no_list_of_names_leads_back(course):
    drawn = {tuple(one.name for one in standing(course, "views", anonymous=True).learners) for _ in range(20)}
    assert len(drawn) > 1 and {frozenset(names) for names in drawn} == {
        frozenset(f"Learner {place}" for place in range(1, 5))
    }


def test_a_broken_hidden_test_stands_on_the_page(course):
    broken = entry("fay", values="The hidden test failed.")
    broken.broken = ["the judge of views.patchify failed at patches.py:71"]
    Ledger(course).write(broken)
    html = written(standing(course, "views"))
    assert "1 learner: the judge of views.patchify failed at patches.py:71" in html
    assert ">fay<" in html.split("patches.py:71")[1].split("</li>")[0]


def test_whose_code_a_person_should_look_at_stands_on_the_page(course):
    flagged = entry("fay")
    flagged.flags = [Flag("views", "patchify", 3, "system", "ctypes", "import ctypes")]
    Ledger(course).write(flagged)
    html = written(standing(course, "views"))
    assert "For a person to look at: 1" in html and "<code>import ctypes</code>" in html


def test_cells_are_timed_by_what_the_grader_noted(course):
    moment = lambda seconds: f"2026-10-12T10:00:{seconds:02d}.000000Z"
    noted = {"iopub.status.busy": moment(1), "iopub.status.idle": moment(4)}
    cells = [
        _cell("patchify", noted),
        _cell("compact", {**noted, "iopub.status.idle": moment(2)}),
        _cell("setup", {"iopub.status.busy": "now"}),
    ]
    folder = course / "autograded" / "ada" / "views"
    folder.mkdir(parents=True)
    (folder / "views.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    found = {one.name: one.runtime for one in standing(course, "views").learners}
    assert (found["ada"].seconds, found["ada"].slowest, found["ada"].slowest_seconds) == (4.0, "patchify", 3.0)
    assert found["bob"] is None


def _cell(grade_id, noted):
    metadata = {"execution": noted, "nbgrader": {"grade_id": grade_id}}
    return {
        "cell_type": "code",
        "id": grade_id,
        "metadata": metadata,
        "source": "",
        "outputs": [],
        "execution_count": None,
    }


def test_an_assignment_that_nobody_graded_is_refused_and_nothing_is_written(course, capsys):
    assert run(course, "streams", False, None) == 2
    said = capsys.readouterr().err
    assert "nothing of 'streams' was graded" in said and "graded there: views" in said
    assert "python -m autograder grade streams" in said and not (course / "reports").exists()


def test_the_table_has_a_line_for_each_learner_and_criterion_and_one_for_who_has_no_verdict(misled, gradebook):
    assert run(misled, "views") == 0
    found = table(misled / "reports/views.csv")
    assert len(found) == 2 * 7 + 2 and {line["learner"]: line["ended"] for line in found[-2:]} == {
        "eve": "not graded yet",
        "ivy": "handed nothing in",
    }
    lines = {(line["learner"], line["criterion"]): line for line in found}
    gus, cyd, dan = lines["gus", "values"], lines["cyd", "no_copy"], lines["dan", "no_copy"]
    assert (gus["outcome"], gus["misconception"], gus["section"]) == ("named", SAID[0].key, SAID[0].read)
    assert (cyd["outcome"], cyd["told"], dan["outcome"], dan["late"]) == (
        "lost",
        "1,024 B were copied.",
        "not judged",
        "1 d 2 h",
    )


def test_a_name_that_a_spreadsheet_would_compute_is_text(course):
    Ledger(course).write(entry("=cmd()"))
    assert run(course, "views") == 0
    assert "'=cmd()" in {line["learner"] for line in table(course / "reports/views.csv")}


def test_a_page_is_not_written_over_by_its_table(course, capsys):
    assert run(course, "views", to=course / "page.csv") == 2
    assert "the table is written beside it" in capsys.readouterr().err and not (course / "page.csv").exists()


@pytest.fixture
def shown(browser, misled):
    """The page of a class in which something of everything is found."""
    broken = entry("=joe", values="A sentence for one learner alone.")
    broken.broken, broken.notes = ["the judge of views.patchify failed at patches.py:71"], ["A note."]
    Ledger(misled).write(broken)
    context = browser.new_context(viewport=A4)
    tab = context.new_page()
    tab.set_content(written(standing(misled, "views")))
    yield tab
    context.close()


def test_a_switch_hides_names_and_what_concerns_one_learner_alone(shown):
    shown.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    before = shown.inner_text("body")
    shown.check("#hide")
    after = shown.inner_text("body")
    for word in ("dan", "gus", "=joe", "A note.", "A sentence for one learner alone."):
        assert word in before and word not in after
    assert "Learner 1" in after and "Learner 1" not in before and "B were copied." in after


def test_on_paper_nothing_is_cut_and_the_switch_is_not_there(shown):
    shown.emulate_media(media="print", color_scheme="dark")
    assert shown.evaluate(CUT) == [] and not shown.is_visible("#hide")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(course, browser, width):
    assert run(course, "views", False, course / "page.html") == 0
    assert px_beyond(browser, (course / "page.html").read_text("utf-8"), width) <= 0


def test_on_paper_there_is_room_for_six_functions_of_eight_criteria(browser, course):
    many = {
        name: Verdict(name, tuple(Line(f"criterion_{place}", "it holds", 1, "earned") for place in range(8)))
        for name in (f"engines.continuous_batcher_{place}" for place in range(6))
    }
    Ledger(course).write(Entry("engines", "a.very.long.name@university.example.org", "graded", verdicts=many))
    context = browser.new_context(viewport=A4)
    tab = context.new_page()
    tab.set_content(written(standing(course, "engines")))
    tab.emulate_media(media="print")
    assert tab.evaluate(CUT) == []
    context.close()
