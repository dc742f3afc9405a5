"""``python -m autograder explain``: names what grading kept, and changes no point."""

import nbformat
import pytest

from autograder.core.ledger import Entry
from autograder.grading import explain
from autograder.notebooks.cells import cell_of
from tests.grading.conftest import Group

COPIES_SOME = """
def patchify(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("the patches do not fit")
    grid = (images.clone() if 0 in images.stride() else images).view(n, c, h // patch, patch, w // patch, patch)
    return grid.permute(0, 2, 4, 1, 3, 5)
"""
GRADE = "patchify_hidden"


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Group:
    """Two who hold a misconception, graded as a class is."""
    group = Group(tmp_path_factory.mktemp("explained"))
    for student in ("ada", "bob"):
        group.hand_in(student, group.answered(patchify=COPIES_SOME))
    for student in group.students():
        assert group.autograde(student)["success"]
        group.feedback(student)
    return group


def entry(group: Group, student: str) -> Entry:
    return group.ledger.read(group.chapter, student)


def lost(group: Group, student: str) -> list[str]:
    """The misconception of each criterion of patchify that was lost, or nothing."""
    return [line.misconception for line in entry(group, student).verdicts[GRADE].lines if line.status == "lost"]


def run(group: Group) -> int:
    return explain.run(group.root, group.chapter, jobs=2)


def test_grading_keeps_what_a_name_needs_of_what_lost_points_alone(graded):
    assert [*entry(graded, "ada").unexplained] == [GRADE] and lost(graded, "ada") == [""]


def test_who_is_killed_between_notebook_and_ledger_is_named_by_the_next_run(graded, monkeypatch):
    before = (graded.root / "autograded" / "ada" / "views" / "views.ipynb").read_text()
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(explain.Ledger, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        players = explain.Players(1)
        explain.explain(graded.root, graded.chapter, "ada", players)
    players.close()
    assert (graded.root / "autograded" / "ada" / "views" / "views.ipynb").read_text() != before
    assert [*entry(graded, "ada").unexplained] == [GRADE]


def test_who_is_being_graded_is_left_to_the_next_run(graded, capsys):
    with graded.ledger.lock(graded.chapter, "bob"):
        scores = graded.scores("ada")
        assert run(graded) == 0
    said = capsys.readouterr().out
    assert "named now: 1 of 1, in 2 submissions" in said and "1 (bob)" in said
    assert (lost(graded, "ada"), lost(graded, "bob")) == (["some_layouts_copied"], [""])
    assert entry(graded, "ada").unexplained == {} and graded.scores("ada") == scores
    assert run(graded) == 0
    assert "named now: 1 of 1, in 1 submissions" in capsys.readouterr().out


def test_the_graded_notebook_and_the_next_feedback_page_say_it(graded):
    run(graded)
    path = graded.root / "autograded" / "ada" / "views" / "views.ipynb"
    (line,) = (line for line in entry(graded, "ada").verdicts[GRADE].lines if line.misconception)
    (output,) = cell_of(nbformat.read(path, as_version=4), GRADE).outputs
    assert line.message in output.data["text/plain"] and not path.stat().st_mode & 0o222
    assert line.message[:40] in graded.feedback("ada", force=False)


def test_of_a_class_that_nobody_graded_it_says_so(graded, capsys):
    assert explain.run(graded.root, "streams", jobs=1) == 2
    assert "nothing of 'streams' was graded" in capsys.readouterr().err
