"""The formgrader in JupyterLab works on the course as it is configured."""

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from autograder.core.layout import ROOT
from autograder.misconceptions.corpus import CORPUS, attempts_at
from autograder.misconceptions.sentences import misconceptions_of


def test_the_formgrader_grades_a_submission_and_lists_its_score(course, formgrader):
    course.hand_in("by_button", course.answered())
    autograde = Request(f"{formgrader}/api/submission/views/by_button/autograde", method="POST")
    assert json.load(urlopen(autograde, timeout=600))["success"]
    (listed,) = [
        submission
        for submission in json.load(urlopen(f"{formgrader}/api/submissions/views"))
        if submission["student"] == "by_button"
    ]
    assert listed["score"] == listed["max_score"] == sum(course.full_marks().values())
    assert course.entry("by_button")["state"] == "graded"


def test_the_formgrader_shows_the_assignment(formgrader):
    assignments = {found["name"]: found for found in json.load(urlopen(f"{formgrader}/api/assignments"))}
    assert assignments["views"]["num_submissions"] > 0
    page = urlopen(f"{formgrader}/manage_assignments").read().decode()
    assert "formgrade" in page


def test_flagged_code_is_shown_above_the_submission_and_resolve_keeps_the_points(course, formgrader, browser):
    course.hand_in("resolved", course.answered(patchify="import ctypes\n" + course.solution("patchify")))
    assert course.autograde("resolved")["success"] and course.needs_manual_grade("resolved")
    page = browser.new_page()
    page.goto(course.formgrade("resolved", formgrader), wait_until="networkidle")
    assert "patchify, line 1: ctypes" in page.locator("#to-look-at").inner_text()
    with page.expect_response(lambda response: response.request.method == "PUT"):
        page.locator(".mark-graded:visible").click()
    page.close()
    assert not course.needs_manual_grade("resolved") and course.scores("resolved") == course.full_marks()


@pytest.mark.parametrize("page", ["manage_submissions/views", "gradebook/views"])
def test_where_the_class_stands_is_one_click_from_an_assignments_pages(course, formgrader, watched, page):
    form = next(one for one in attempts_at(ROOT / "exercises/views" / CORPUS, "predict_view") if one.says)
    course.hand_in("led", course.answered(predict_view=form.source))
    assert course.autograde("led")["success"]
    watched.goto(f"{formgrader}/{page}", wait_until="networkidle")
    watched.locator("#class-report").click()
    named = watched.locator("#named").inner_text()
    assert misconceptions_of("views.predict_view")[form.says].name in named
    assert "led" in watched.locator("#learners").inner_text()
    assert not watched.far and "file:" not in watched.content()


def test_what_was_graded_since_is_on_the_page_when_it_is_asked_for_again(course, formgrader):
    read = lambda: urlopen(f"{formgrader}/class/views").read().decode()
    course.hand_in("later", course.answered())
    assert "later" not in read().split('id="learners"')[1].split("</section>")[0]
    assert course.autograde("later")["success"]
    assert "later" in read().split('id="learners"')[1].split("</section>")[0]


def test_no_script_runs_on_the_report(formgrader):
    policy = urlopen(f"{formgrader}/class/views").headers["Content-Security-Policy"]
    assert policy.startswith("sandbox ") and "default-src 'none'" in policy and "script" not in policy


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("none", "nothing of 'none' was graded"),
        ("..%2Fviews", "'../views' is no assignment"),
        ("..", "There is no report"),
    ],
)
def test_where_nothing_was_graded_a_sentence_says_so(formgrader, assignment, says):
    with pytest.raises(HTTPError) as why:
        urlopen(f"{formgrader}/class/{assignment}")
    assert why.value.code == 404 and says in why.value.read().decode()
