"""For whom a release is made."""

from pathlib import Path

import pytest

from autograder.core.edition import NAME, SERVICE, Edition, edition, of_this_build

AT = "https://marks.example.org/services/marks"


def test_the_open_edition_marks_on_a_learners_machine_and_is_what_is_built_without_a_word(monkeypatch):
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.setenv("EDITION", "graded")
    assert of_this_build() == edition("open") == Edition()
    assert edition("open").has_marker and edition("open").built(Path("course")) == Path("course/_build")


def test_the_graded_edition_has_a_marker_where_there_is_a_service(monkeypatch):
    assert edition("graded", f"{AT}/") == Edition(graded=True, service=AT)
    assert edition("graded", AT).has_marker and not edition("graded").has_marker
    assert edition("graded").built(Path("course")) == Path("course/_build/graded")
    for name, value in edition("graded", AT).environment().items():
        monkeypatch.setenv(name, value)
    assert of_this_build() == edition("graded", AT) and SERVICE != "MARKING_SERVICE"


@pytest.mark.parametrize(
    ("name", "service", "says"),
    [
        ("closed", "", "open or graded"),
        ("open", AT, "goes with EDITION=graded"),
        ("graded", "http://marks.example.org", "https:// is needed"),
        ("graded", "marks.example.org", "https:// is needed"),
        ("graded", "ftp://localhost", "https:// is needed"),
    ],
)
def test_what_is_no_edition_is_refused_in_a_sentence(name, service, says):
    with pytest.raises(ValueError, match=says):
        edition(name, service)


@pytest.mark.parametrize("service", ["http://localhost:8091", "http://127.0.0.1:8091", "http://[::1]:8091"])
def test_a_service_on_this_machine_needs_no_certificate(service):
    assert edition("graded", service).service == service
