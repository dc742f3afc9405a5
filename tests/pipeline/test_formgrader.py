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
