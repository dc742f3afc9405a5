"""E18.3 intensity: what runs beside the learner's function."""

from dataclasses import dataclass
from numbers import Real

import torch

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


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
    """Ask every question with the same card, whose rates are others each time; then count the pass where the question says so."""
    card: dict = {}
    answers = [_bound(learner, question, card) for question in case["questions"]]
    return {"answers": answers, "ran": [_passed(learner, q) if q["measure"] else None for q in case["questions"]]}


def _bound(learner: Learner, question: dict, card: dict) -> dict:
    config = _decoder(question["config"])
    card.clear()
    card.update(_of_dtypes(question["card"]))
    answer = outcome(lambda: learner.intensity(*question["asked"], config, card))
    if isinstance(answer.get("returned"), dict):
        answer["returned"] = {key: _part(part) for key, part in answer["returned"].items()}
    return answer | {"kept": card == _of_dtypes(question["card"])}


def _part(value: object) -> object:
    """A dictionary as it is now: the next question may be answered in the same one. A ratio of any class is a float."""
    if not isinstance(value, dict):
        return value
    ratio = value.get("intensity")
    return (
        {**value, "intensity": float(ratio) if isinstance(ratio, Real) else ratio}
        if "intensity" in value
        else dict(value)
    )


def _decoder(sizes: dict) -> DecoderShape:
    return DecoderShape(**sizes | {"dtype": getattr(torch, sizes["dtype"])})


def _of_dtypes(card: dict) -> dict:
    """With ``torch`` dtypes for their names."""
    peaks = {kind: {getattr(torch, name): rate for name, rate in card[kind].items()} for kind in ("dense", "sparse")}
    return {key: peaks.get(key, rate) for key, rate in card.items()}


def _passed(learner: Learner, question: dict) -> list:
    """FLOPs and bytes of a part in the pass of the notebook's decoder, whose tensors have no values here."""
    (phase, batch, seq), config, part = question["asked"], _decoder(question["config"]), question["measure"]
    flops, nbytes = learner.one_pass(config, batch, *((0, seq) if phase == "prefill" else (seq, 1)), "ghost:H100")[part]
    if (phase, part) == ("prefill", "attention"):  # token after token, where no pair is left out
        flops = sum(learner.one_pass(config, batch, held, 1, "ghost:H100")[part][0] for held in range(seq))
    return [flops, nbytes]
