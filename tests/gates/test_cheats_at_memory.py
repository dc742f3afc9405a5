"""Cheating solutions to the chapter "Memory" score zero."""

from pathlib import Path

import torch

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import score_here
from autograder.notebooks.cells import cell_of
from autograder.runner.scenario_runner import run_case
from tests.gates.threads import in_a_thread

SHAPE = dict(layers=1, width=16, heads=2, kv_heads=1, hidden=8, vocabulary=9, batch=1, sequence=4, dtype=torch.float32)


def score(exercise: str, function, seed: int = 7, **given) -> float:
    """``given``: what cells of the notebook define beside the function."""
    name = f"memory.{exercise}"
    return score_here(name, lambda inputs: run_case(name, given | {exercise: function}, inputs), Sampler(seed))


def given_cell(grade_id: str) -> dict:
    """What a cell of the notebook defines."""
    path = Path(__file__).parents[2] / "exercises/memory/notebook.py"
    namespace = {"torch": torch}
    exec(cell_of(read_text_notebook(path), grade_id).source, namespace)
    return {name: value for name, value in namespace.items() if not name.startswith("__")}


GIVEN = given_cell("a_decoder")


def smaller_decoder(shape, attention="flash"):
    """A decoder of the cheat's own, that keeps nothing."""
    return 0


def test_a_cheat_at_activation_bytes_earns_nothing():
    cheats = {
        "measured at another size": lambda shape, *how: (
            GIVEN["saved_bytes"](SHAPE, *how) * shape["layers"] * shape["batch"]
        ),
        "measured on another thread": lambda *asked: in_a_thread(lambda: GIVEN["saved_bytes"](SHAPE)),
    }
    scores = {what: score("activation_bytes", cheat, **GIVEN) for what, cheat in cheats.items()}
    assert scores == dict.fromkeys(cheats, 0) != {}


def test_another_decoder_in_the_place_of_the_given_one_earns_nothing():
    scores = score("activation_bytes", smaller_decoder, **GIVEN | {"saved_bytes": smaller_decoder})
    assert scores == 0
