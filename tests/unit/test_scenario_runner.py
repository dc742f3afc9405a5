"""The scenario runner: whatever the learner's code does becomes evidence."""

import pytest
import torch

from autograder.core.layout import ROOT
from autograder.protocol import wire
from autograder.runner import scenario_runner
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner, NotDefined, describe, run_case, scenario

IMAGES = wire.encode({"images": torch.ones(1, 1, 2, 2), "patch": 1, "turned_first": False})


def evidence(patchify) -> dict:
    return wire.decode(run_case("views.patchify", {"patchify": patchify}, IMAGES))


def test_what_the_function_returns_is_evidence():
    given = evidence(lambda images, patch: images + 1)
    assert given["patches"].tolist() == [[[[2, 2], [2, 2]]]] and given["seen"]["ops"][0]["op"] == "aten.add"


@pytest.mark.parametrize(
    "error", [ValueError("odd"), SystemExit(3), GeneratorExit(), MemoryError(), RecursionError("deep")]
)
def test_what_the_function_raises_is_evidence(error):
    def patchify(images, patch):
        raise error

    raised = evidence(patchify)["raised"]
    assert (raised["type"], raised["message"]) == (type(error).__name__, str(error))


INSTRUMENT = "def run(learner, case):\n    return learner.patchify(lambda function, *more: function(*more))"


def test_calls_nested_too_deeply_for_an_instrument_are_the_functions_own(monkeypatch):
    def patchify(watched):
        return watched(patchify, watched)

    instrument = {}
    exec(compile(INSTRUMENT, str(ROOT / "exercises/views/patchify/run.py"), "exec"), instrument)
    monkeypatch.setattr(scenario_runner, "scenario", lambda name: instrument["run"])
    raised = evidence(patchify)
    assert raised["raised"]["type"] == "RecursionError" and "scenario_fault" not in raised


def test_an_interrupt_goes_through():
    def patchify(images, patch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evidence(patchify)


def test_a_missing_function_is_evidence_that_names_it():
    raised = wire.decode(run_case("views.patchify", {}, IMAGES))["raised"]
    assert raised["type"] == "NotDefined" and "`patchify`" in raised["message"]


def test_a_missing_name_says_what_may_have_happened():
    with pytest.raises(NotDefined, match="`compact`: was its cell deleted"):
        Learner({}).compact


def test_a_result_too_large_to_cross_is_evidence(monkeypatch):
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 4000)
    raised = evidence(lambda images, patch: torch.zeros(100_000))["raised"]
    assert raised["type"] == "WireError"


def test_a_result_nested_too_deep_is_evidence():
    endless: list = []
    endless.append(endless)
    assert evidence(lambda images, patch: endless)["raised"]["type"] == "WireError"


def test_a_key_that_cannot_be_written_is_evidence():
    class Key:
        def __str__(self):
            raise RuntimeError("no")

    assert evidence(lambda images, patch: {Key(): 1})["raised"]["type"] == "RuntimeError"


def test_a_message_that_cannot_be_written_is_left_out():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError("no")

    told = describe(Silent())
    assert (told["type"], told["message"], told["line"]) == ("Silent", "", "")
    assert told["kinds"][1:] == ["Exception", "BaseException", "object"]


def test_a_message_that_is_no_unicode_still_crosses():
    def patchify(images, patch):
        raise ValueError("\ud800")

    assert evidence(patchify)["raised"]["message"] == "?"


def test_the_line_is_the_innermost_one_that_belongs_to_the_notebook():
    source = "def patchify(images, patch):\n    return images.view(3)\n"
    import linecache

    linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(True), "<cell 1>")
    namespace: dict = {}
    exec(compile(source, "<cell 1>", "exec"), namespace)
    assert evidence(namespace["patchify"])["raised"]["line"] == "return images.view(3)"


def test_outcome_tells_returned_from_raised():
    assert outcome(lambda: 3) == {"returned": 3}
    assert outcome(lambda: [][0])["error"]["type"] == "IndexError"


def test_a_scenario_is_found_by_the_exercises_name():
    assert scenario("views.compact").__module__ == "exercises.views.compact.run"
