"""Every kind of attack that pays, or has paid, is flagged by the words that it is written in."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.core.flag import REASONS
from autograder.flags.notebook import flags_of

_HEAD = re.compile(r"^# %% (\w+): (.+)\n", re.MULTILINE)
_PARTS = _HEAD.split(Path(__file__).with_name("attacks.txt").read_text())[1:]
ATTACKS = {name: source.strip() for name, source in zip(_PARTS[::3], _PARTS[2::3], strict=True)}


def flags(*sources, beside=None):
    return flags_of("views", new_notebook(cells=list(map(new_code_cell, sources))), beside or {})


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_flagged(name):
    assert flags(ATTACKS[name])


def test_every_kind_but_what_cannot_be_read_is_among_them():
    assert {flag.kind for source in ATTACKS.values() for flag in flags(source)} == REASONS.keys() - {"unreadable"}


@pytest.mark.parametrize("name", ["reading_replaced", "loss_by_address", "closure_read"])
def test_in_a_file_beside_the_notebook_too(name):
    assert [flag.cell for flag in flags("import helper", beside={"helper.py": ATTACKS[name]})][:1] == ["helper.py"]
