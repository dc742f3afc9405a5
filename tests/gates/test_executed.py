"""Which files plays of an exercise execute: its record stands on those of gpulab and autograder, and falls with them."""

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.authoring import executed, on_record, trials
from autograder.authoring.authored import authored_in
from autograder.authoring.executed import changed, executed_by
from tests.gates.records import AsExpected, record_of
from tests.gates.small import EXERCISES


def exercise(chapter: str, function: str):
    return next(one for one in authored_in(EXERCISES / chapter) if one.function == function)


@pytest.fixture(scope="module")
def of_streams() -> dict[str, str]:
    return executed_by(exercise("streams", "train"))


@pytest.fixture
def authored(monkeypatch):
    made = replace(exercise("views", "patchify"), record={})
    return replace(made, record=record_of(made))


def test_the_virtual_card_and_the_referee_are_among_what_a_device_exercise_executes(of_streams):
    assert {"gpulab/cuda/device/dispatch.py", "autograder/judge/referee.py"} <= of_streams.keys()


def test_a_module_that_is_imported_and_not_called_is_not(of_streams):
    assert "gpulab/cuda/device/capture.py" not in of_streams and "gpulab/kernels/tiles/kernel.py" not in of_streams


def test_a_module_of_which_a_constant_is_used_is(of_streams):
    assert "gpulab/cards/constants.py" in of_streams


def test_the_harness_that_plays_attempts_for_authors_is_not(of_streams):
    assert not [file for file in of_streams if file.startswith("autograder/authoring/")]


def test_what_ranks_execute_is_seen_though_they_are_ended():
    assert "gpulab/collectives/rank/group.py" in executed_by(exercise("collectives", "ring_all_reduce"))


def test_an_answer_exercise_executes_no_device():
    assert not [file for file in executed_by(exercise("memory", "fits")) if file.startswith("gpulab/cuda/")]


def test_that_nothing_was_seen_is_an_error(authored, monkeypatch):
    monkeypatch.setattr(executed, "COUNTED", ("nowhere",))
    with pytest.raises(RuntimeError, match=r"no file .* was seen while views.patchify was played"):
        executed_by(authored)


def test_a_file_that_changed_or_is_gone_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(executed, "ROOT", tmp_path)
    same, other, gone = (tmp_path / name for name in ("same.py", "other.py", "gone.py"))
    for file in (same, other, gone):
        file.write_text('"""Of this."""\n\na = 1\n')
    was = {file.name: executed.digest(file) for file in (same, other, gone)}
    same.write_text('"""Of that."""\n\na = 1  # a comment\n')
    other.write_text('"""Of this."""\n\na = 2\n')
    gone.unlink()
    assert changed(was) == ["other.py", "gone.py"]


def another(record: dict) -> dict:
    return record | {"executed": dict.fromkeys(record["executed"], "0")}


def test_a_record_stands_as_long_as_what_was_executed_is_what_it_was(authored):
    assert on_record.stands(authored)
    assert not on_record.stands(replace(authored, record=another(authored.record)))
    without = {name: value for name, value in authored.record.items() if name != "executed"}
    assert not on_record.stands(replace(authored, record=without))


def test_every_change_is_tested_with_a_record_that_an_audit_has_still_to_renew(authored):
    old = replace(authored, record=another(authored.record))
    assert on_record.not_yet_tried(old) == on_record.not_yet_seen(old) == []


def test_an_audit_tries_mutants_and_every_attempt_again_and_then_the_record_stands(authored):
    taken_up = on_record.renewed(replace(authored, record=another(authored.record)))
    record, problems = trials.tried(taken_up, AsExpected(authored), attempts=[])
    half, again = replace(authored, record=record), [*authored.mistakes, *authored.alternatives]
    assert problems == [] and on_record.to_try_again(half) == again and not on_record.stands(half)
    record, problems = trials.tried(half, AsExpected(authored), again)
    assert problems == [] and record == authored.record


def test_one_that_loses_something_else_now_is_no_longer_known(authored):
    class Another(AsExpected):
        def all(self, trials):
            return [[["values"]] * len(trial.seeds) for trial in trials]

    (wrong,) = [one for one in authored.mistakes if one.loses == ("errors",)][:1]
    taken_up = replace(authored, record=authored.record | {"stale": authored.record["tried"]})
    record, problems = trials.tried(taken_up, Another(authored), [wrong])
    assert problems and on_record.not_yet_tried(replace(authored, record=record)) == [wrong]
    assert wrong not in on_record.to_try_again(replace(authored, record=record))


def test_where_nothing_changed_an_audit_takes_the_record_as_it_is(authored):
    assert on_record.renewed(authored) is authored


def test_files_are_named_as_they_stand_in_the_repository(of_streams):
    assert all(Path(EXERCISES.parent, file).is_file() for file in of_streams)
