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


KINDS = ("weights", "gradients", "main_gradients", "master", "moments", "scales", "total")
GIVEN = given_cell("a_decoder")


class Agreeable(int):
    """A number that is as large as one likes."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = int.__hash__


def smaller_decoder(shape, attention="flash"):
    """A decoder of the cheat's own, that keeps nothing."""
    return 0


def test_a_cheat_at_state_bytes_earns_nothing():
    cheats = {
        "zeros": lambda *asked: dict.fromkeys(KINDS, 0),
        "sixteen bytes in one kind": lambda n, *others: dict.fromkeys(KINDS, 0) | {"weights": 16 * n, "total": 16 * n},
        "agreeable": lambda *asked: dict.fromkeys(KINDS, Agreeable()),
        "no numbers": lambda *asked: dict.fromkeys(KINDS),
        "everything refused": lambda *asked: (_ for _ in ()).throw(ValueError()),
        "the recipe": lambda n, recipe, *ranks: recipe,
    }
    assert {what: score("state_bytes", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_activation_bytes_earns_nothing():
    cheats = {
        "nothing": lambda *asked: 0,
        "agreeable": lambda *asked: Agreeable(),
        "a tensor": lambda *asked: torch.tensor(0),
        "everything refused": lambda *asked: (_ for _ in ()).throw(ValueError()),
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


class Everything(dict):
    """Has every entry, and each is right."""

    __contains__ = __eq__ = lambda self, other: True
    __missing__ = lambda self, name: Agreeable()
    __hash__ = None


ENTRIES = ("terms", "free", "fits", "binding", "largest")


def refuse(*question):
    raise ValueError


def test_a_cheat_at_fits_earns_nothing():
    cheats = {
        "no terms": lambda *question: {"terms": {}, "free": 0, "fits": True, "binding": "weights", "largest": 0},
        "agreeable numbers": lambda *question: dict.fromkeys(ENTRIES, Agreeable()),
        "agreeable terms": lambda *question: {**dict.fromkeys(ENTRIES, Agreeable()), "terms": Everything()},
        "an agreeable dictionary": lambda *question: Everything(),
        "not numbers": lambda *question: dict.fromkeys(ENTRIES, float("nan")),
        "everything refused": refuse,
        "the model": lambda model, *question: model,
    }
    assert {what: score("fits", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


KINDS = ("frozen", "scales", "adapters", "gradients", "optimizer")


def bare_adapters(model, rank, targets, bits=16):
    """Parameters of the right shapes under the right names, which take no part in anything."""
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        if name.split(".")[-1] in targets:
            module.lora_a = torch.nn.Parameter(torch.randn(rank, module.in_features))
            module.lora_b = torch.nn.Parameter(torch.zeros(module.out_features, rank))
    return dict.fromkeys(KINDS, Agreeable())


def test_a_cheat_at_lora_memory_earns_nothing():
    cheats = {
        "an account alone": lambda *job, **options: dict.fromkeys(KINDS, 0),
        "agreeable numbers": lambda *job, **options: dict.fromkeys(KINDS, Agreeable()),
        "all frozen": lambda model, *job, **options: model.requires_grad_(False),
        "adapters that do nothing": bare_adapters,
        "everything refused": lambda *job, **options: refuse(),
    }
    assert {what: score("lora_memory", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
