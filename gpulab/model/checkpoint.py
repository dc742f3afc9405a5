"""The trained TinyVLA: weights in safetensors, and beside them how they came about."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from gpulab.model.config import Config
from gpulab.model.policy import TinyVLA

TRAINED = Path(__file__).parent / "tinyvla"
"""Without a suffix: ``.safetensors`` and ``.json`` lie there."""


def load(name: Path = TRAINED, dtype: torch.dtype = torch.float32) -> TinyVLA:
    """The trained policy, on the CPU, ready to act. Raises FileNotFoundError where no checkpoint is."""
    if not (weights := name.with_suffix(".safetensors")).is_file():
        raise FileNotFoundError(f"{weights} is missing: python -m gpulab.model.train makes a checkpoint")
    policy = TinyVLA(Config(**record(name)["config"]))
    policy.load_state_dict(load_file(weights))
    return policy.to(dtype).eval()


def record(name: Path = TRAINED) -> dict:
    """How a checkpoint was trained: its configuration, seed, versions, learning curve and success."""
    return json.loads(name.with_suffix(".json").read_text("utf-8"))


def save(policy: TinyVLA, told: dict, name: Path) -> None:
    """Write weights and record. ``told``: what there is to say beside the configuration."""
    save_file(policy.state_dict(), name.with_suffix(".safetensors"))
    kept = {"config": asdict(policy.config), "parameters": policy.config.parameters, **told}
    name.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
