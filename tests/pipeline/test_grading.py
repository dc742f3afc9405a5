"""nbgrader's autograde, one submission at a time, through the referee."""

from nbformat.v4 import new_code_cell


def test_a_warning_on_stderr_costs_nothing(course):
    noisy = "import sys, warnings\nwarnings.warn('be careful')\nprint('noise', file=sys.stderr)"
    notebook = course.answered()
    notebook.cells.insert(2, new_code_cell(noisy))
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = cell.source.replace("):\n", "):\n    print('working', file=__import__('sys').stderr)\n", 1)
    course.hand_in("warns", notebook)
    assert course.autograde("warns")["success"]
    assert course.scores("warns") == course.full_marks()


def test_a_resubmission_that_crashes_does_not_keep_the_old_score(course):
    course.hand_in("again", course.answered())
    course.autograde("again")
    assert course.scores("again") == course.full_marks()
    course.hand_in("again", course.answered(patchify="import os; os._exit(0)"), at="2026-01-02 00:00:00")
    course.autograde("again", force=False)
    assert course.scores("again")["patchify_hidden"] == 0


def test_what_was_graded_is_not_graded_twice(course):
    course.hand_in("once", course.answered())
    course.autograde("once")
    first = course.ledger.path(course.chapter, "once").stat().st_mtime_ns
    course.autograde("once", force=False)
    assert course.ledger.path(course.chapter, "once").stat().st_mtime_ns == first


def test_a_submission_left_half_done_by_a_killed_run_is_graded_again(course):
    course.hand_in("halfway", course.answered())
    course.autograde("halfway")
    entry = course.ledger.read(course.chapter, "halfway")
    entry.state = "running"
    course.ledger.write(entry)
    course.autograde("halfway", force=False)
    assert course.entry("halfway")["state"] == "graded"
    assert course.scores("halfway") == course.full_marks()


def test_a_submission_that_another_grader_holds_is_left_alone(course):
    course.hand_in("held", course.answered())
    with course.ledger.lock(course.chapter, "held") as free:
        assert free
        course.autograde("held")
        assert course.ledger.read(course.chapter, "held") is None


def test_a_module_in_the_submission_does_not_stand_in_for_a_library(course):
    folder = course.hand_in("shadows", course.answered())
    for name in ("torch.py", "gpulab.py", "ipykernel_launcher.py", "autograder.py"):
        (folder / name).write_text("raise SystemExit('shadowed')")
    course.autograde("shadows")
    assert course.scores("shadows") == course.full_marks()


def test_a_module_in_the_submission_can_be_imported(course):
    folder = course.hand_in("helper", course.answered(patchify="from my_patches import patchify"))
    (folder / "my_patches.py").write_text("import torch\n" + course.solution("patchify"))
    course.autograde("helper")
    assert course.scores("helper")["patchify_hidden"] == course.full_marks()["patchify_hidden"]


def test_the_kernel_knows_nothing_of_grading_from_its_environment(course):
    spy = "import os\ndef patchify(*a):\n    raise RuntimeError(' '.join(sorted(os.environ)))"
    course.hand_in("spies", course.answered(patchify=spy))
    course.autograde("spies")
    lines = course.entry("spies")["verdicts"]["patchify_hidden"]["lines"]
    assert "PATH" in lines[0]["message"] and "NBGRADER" not in lines[0]["message"]
