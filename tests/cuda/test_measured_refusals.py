"""Asked what bug reports ask, the virtual card refuses, waits for and keeps what an H100 did: each row of the record."""

import pytest
import torch

from evidence.studies import Study, refusals
from gpulab import evidence
from gpulab.collectives import run_ranks

REFUSED_BY_NAME = {"pinned copy"}
"""A card runs them; here they say that they are not modelled."""


def answered(study: Study) -> dict:
    """Each row's figures; the same object may serve several rows, as in the record."""
    return {name: _figures(measure) for name, measure in study.rows()}


def _figures(measure) -> dict:
    try:
        return measure()
    except Exception as why:  # a row that the card refuses
        return {"why": f"{type(why).__name__}: {why}"}


def alike(modelled: dict, measured: dict) -> bool:
    """``refused``: by the kind of error and its first words; errors of numbers: within a third; all else: equal."""
    return modelled.keys() == measured.keys() and all(_same(name, modelled[name], measured[name]) for name in measured)


def _same(name: str, here, there) -> bool:
    if name == "refused" and here and there:
        return here[:30] == there[:30]  # PyTorch's releases word some of them anew
    if name == "relative_error":
        return there / 3 < here < there * 1.35
    return here == (None if there == "None" else there)


def differences(study: str, modelled: dict) -> dict:
    measured = evidence.study(study)
    assert modelled.keys() == measured.keys()
    found = {row: (modelled[row], measured[row]) for row in measured if not alike(modelled[row], measured[row])}
    refused = {row for row, (here, _) in found.items() if str(here.get("refused")).startswith("NotModelled")}
    return {row: both for row, both in found.items() if row not in refused & REFUSED_BY_NAME}


@pytest.mark.parametrize(
    "study",
    [
        "what deterministic algorithms refuse",
        "generators on the wrong device",
        "what waits",
        "formats that a card keeps",
    ],
)
def test_the_card_answers_as_the_h100_did(virtual, study, monkeypatch):
    monkeypatch.setattr(refusals, "_without_a_workspace", _a_product_without_a_workspace)
    torch.manual_seed(0)
    assert differences(study, answered(refusals.STUDIES[study])) == {}


def _a_product_without_a_workspace() -> dict:
    a = torch.ones(64, 64, device="cuda")
    return refusals._deterministic(lambda: a @ a)


def test_a_capture_refuses_what_it_did_on_the_h100(virtual, monkeypatch):
    monkeypatch.setattr(refusals, "_own_process", lambda name: refusals._said(getattr(refusals, name)))
    study = "what a capture refuses"
    assert differences(study, answered(refusals.STUDIES[study])) == {}


def test_a_group_refuses_what_nccl_did():
    study = "what NCCL refuses"

    def ask(rank, world):
        import torch.distributed as dist

        return answered(Study(lambda: refusals._collectives(dist), "", ()))

    assert differences(study, run_ranks(ask, 1).results[0]) == {}
