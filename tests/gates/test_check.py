"""``python -m autograder check``: the gates with a command-line face."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.authoring import gates, trials
from autograder.authoring.authored import AuthoredExercise, authored_exercises, records
from autograder.authoring.check import run
from autograder.authoring.on_record import has_mutants, not_yet_seen, not_yet_tried, write
from autograder.authoring.trials import sample
from tests.gates.records import AsExpected, record_of

EXERCISES = Path(__file__).parents[2] / "exercises"


def patchify_in(exercises: Path) -> AuthoredExercise:
    return next(authored for authored in authored_exercises(exercises) if authored.name == "views.patchify")


@pytest.fixture
def exercises(tmp_path) -> Path:
    shutil.copytree(EXERCISES / "views", tmp_path / "views", ignore=shutil.ignore_patterns("__pycache__"))
    patchify = patchify_in(tmp_path)
    write(tmp_path / "views", {"views.patchify": record_of(replace(patchify, record={}))})
    return tmp_path


@pytest.fixture
def as_due(exercises, monkeypatch) -> None:
    """No attempt is tried: each loses what it must."""
    for module in (gates, trials):
        monkeypatch.setattr(module, "IsolatedRuns", lambda jobs=1: AsExpected(patchify_in(exercises)))


def test_a_sound_exercise_passes(exercises, capsys):
    assert run(exercises, ["views.patchify"]) == 0
    assert capsys.readouterr().out.startswith("views.patchify: nothing wrong")


def test_what_was_judged_rightly_is_kept_on_record_and_the_mutants_beside_it(exercises, as_due, capsys):
    write(exercises / "views", {})
    assert run(exercises, ["views.patchify"], keep=True) == 0
    assert "  left to do: its mutants were not tried" in capsys.readouterr().out
    patchify = patchify_in(exercises)
    assert not_yet_seen(patchify) == [] and not_yet_tried(patchify) == [*patchify.mistakes, *patchify.alternatives]
    assert len(sample(patchify)) < len(patchify.attempts) and patchify.record["cheapest"]
    again = record_of(patchify)
    assert has_mutants(again) and len(again["seen"]) == len(patchify.cheats)


def test_nothing_is_kept_of_an_exercise_with_a_problem(exercises, as_due):
    write(exercises / "views", {})
    notebook = exercises / "views" / "notebook.py"
    notebook.write_text(notebook.read_text().replace('import autograder; autograder.grade("views.patchify")', "pass"))
    assert run(exercises, ["views.patchify"], keep=True) == 1
    assert records(exercises / "views") == {}


def test_of_an_attempt_that_is_misdeclared_alone_nothing_is_kept(exercises, monkeypatch, capsys):
    declared = AsExpected(patchify_in(exercises))
    monkeypatch.setattr(gates, "IsolatedRuns", lambda jobs=1: declared)
    monkeypatch.setattr(trials, "IsolatedRuns", lambda: declared)
    write(exercises / "views", {})
    wrong = next(one for one in patchify_in(exercises).mistakes if len(one.loses) == 1)
    (lost,) = wrong.loses
    other = min(patchify_in(exercises).criteria - {lost})
    corpus = exercises / "views" / "corpus.txt"
    head = f"# %% wrong patchify {wrong.name} loses="
    corpus.write_text(corpus.read_text().replace(f"{head}{lost}", f"{head}{other}"))
    assert run(exercises, ["views.patchify"], keep=True) == 1
    assert f"{wrong.name} loses {lost}, not {other}" in capsys.readouterr().out
    assert [one.name for one in not_yet_seen(patchify_in(exercises))] == [wrong.name]


def test_each_problem_is_a_sentence_on_its_own_line(exercises, as_due, capsys):
    notebook = exercises / "views" / "notebook.py"
    head, found, rest = notebook.read_text().partition('"grade_id": "patchify_hidden"')
    notebook.write_text(head + found + rest.replace('"points": 8', '"points": 50', 1))
    assert run(exercises, ["views.patchify"]) == 1
    assert "the cell is worth 50 points" in capsys.readouterr().out


def test_an_unknown_name_lists_those_there_are(exercises, capsys):
    assert run(exercises, ["views.patchifi"]) == 2
    assert "views.patchify" in capsys.readouterr().err


def test_a_corpus_that_cannot_be_read_is_said(exercises, capsys):
    (exercises / "views" / "corpus.txt").write_text("# %% wrong patchify broken loses=values\ndef patchify(:\n")
    assert run(exercises, []) == 1
    out = capsys.readouterr().out
    assert out.startswith("views: cannot be read, and is left out\n  ") and out.endswith(
        "/views/corpus.txt:2: SyntaxError: invalid syntax\n"
    )


def test_a_folder_without_exercises_is_an_error(tmp_path):
    assert run(tmp_path, []) == 2
