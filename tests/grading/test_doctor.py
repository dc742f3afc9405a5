"""``python -m autograder doctor``."""

from concurrent.futures import ThreadPoolExecutor

from autograder.cli import doctor
from autograder.sandbox import sandbox


def test_this_machine_can_grade():
    # In a thread of its own: a browser's event loop may be running in this one.
    with ThreadPoolExecutor(1) as another:
        findings = another.submit(doctor.examine).result()
    assert doctor.can_grade(findings), doctor.report(findings)
    assert doctor.report(findings).endswith("Grading works on this machine.")
    assert len({finding.subject for finding in findings}) == len(findings)


def test_a_missing_sandbox_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setattr(sandbox, "problem", lambda: "bubblewrap is not installed (Debian: apt-get install bubblewrap)")
    finding = next(doctor._sandbox())
    assert finding.says == "does not work" and "apt-get install bubblewrap" in finding.advice
    assert not doctor.can_grade([finding])


def test_without_nbgrader_grading_cannot_work(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda package: "" if package == "nbgrader" else "1.0")
    findings = list(doctor._packages())
    assert not doctor.can_grade(findings)
    assert "NEEDED   nbgrader" in doctor.report(findings)


def test_an_environment_that_holds_the_solutions_is_none_to_grade_in(monkeypatch):
    monkeypatch.setattr(sandbox, "markers", lambda: ["/opt/site-packages/autograder", "/opt/site-packages/exercises"])
    (finding,) = doctor._marker()
    assert "in /opt/site-packages" in finding.says and not doctor.can_grade([finding])


def test_a_kernel_that_does_not_start_stops_grading(monkeypatch):
    def broken(policy):
        raise OSError("no fork today")

    monkeypatch.setattr("autograder.sandbox.workspace.workspace", broken)
    (finding,) = doctor._kernel()
    assert not doctor.can_grade([finding]) and "no fork today" in finding.advice


def test_a_full_disk_is_said(monkeypatch):
    monkeypatch.setattr(doctor, "ENOUGH_BYTES", 1 << 62)
    assert all(finding.advice for finding in doctor._disk())
