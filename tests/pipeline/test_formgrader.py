"""The formgrader in JupyterLab works on the course as it is configured."""

import json
from urllib.request import Request, urlopen


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
