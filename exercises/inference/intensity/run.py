"""E18.3 intensity: what runs beside the learner's function."""

from dataclasses import dataclass
from numbers import Real

import torch

from autograder.runner.answers import ask
from autograder.runner.scenario_runner import Learner, describe


@dataclass(frozen=True)
class DecoderShape:
    """As the notebook's."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    dtype: torch.dtype
    weight_bits: int
    kv_bits: int


def run(learner: Learner, case: dict) -> dict:
    """Ask with one card, whose rates are others each time, and count the pass where a question says so. A changed card is emptied."""
    function, given = learner.intensity, {}

    def intensity(phase: str, batch: int, seq: int, sizes: dict, card: dict, measure: str) -> object:
        config = _decoder(sizes)
        given.clear()
        given.update(_of_dtypes(card))
        try:
            told = _of_floats(function(phase, batch, seq, config, given))
        finally:
            if given != _of_dtypes(card):
                card.clear()
        return [told, _passed(learner, phase, batch, seq, config, measure)] if measure else told

    return ask(intensity, case, describe)


def _of_floats(value: object) -> object:
    """A part's intensity as a float, of whatever class the number is."""
    if not isinstance(value, dict):
        return value
    return {
        key: float(part) if key == "intensity" and isinstance(part, Real) else _of_floats(part)
        for key, part in value.items()
    }


def _decoder(sizes: dict) -> DecoderShape:
    return DecoderShape(**sizes | {"dtype": getattr(torch, sizes["dtype"])})


def _of_dtypes(card: dict) -> dict:
    """With ``torch`` dtypes for their names."""
    peaks = {kind: {getattr(torch, name): rate for name, rate in card[kind].items()} for kind in ("dense", "sparse")}
    return {key: peaks.get(key, rate) for key, rate in card.items()}


def _passed(learner: Learner, phase: str, batch: int, seq: int, config: DecoderShape, part: str) -> list:
    """FLOPs and bytes of a part in the pass of the notebook's decoder, whose tensors have no values here."""
    flops, nbytes = learner.one_pass(config, batch, *((0, seq) if phase == "prefill" else (seq, 1)), "ghost:H100")[part]
    if (phase, part) == ("prefill", "attention"):  # token after token, where no pair is left out
        flops = sum(learner.one_pass(config, batch, held, 1, "ghost:H100")[part][0] for held in range(seq))
    return [flops, nbytes]
