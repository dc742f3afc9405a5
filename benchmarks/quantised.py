"""TinyVLA with 8-bit and 4-bit weights, and adapted with LoRA: success against bytes, every point run.

    pip install --no-deps torchao==0.18.0    # the extra ``quantise``
    python benchmarks/quantised.py [--only NAME ...] [--write]

The matrices of the decoder's layers are quantised, seven to a layer, without calibration; embeddings, norms,
patches and head stay in bfloat16. Bytes are those of the storages that a policy keeps alive, scales and zero
points included. Adapting: a world whose instructions all name a colour that the policy never saw.
``--write`` keeps it all in gpulab/model/quantised.json.
"""

import argparse
import datetime
import json
import logging
import platform
import time
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version

import numpy as np
import torch
from torch import Tensor, nn

from gpulab.memory.owners import storages
from gpulab.model import TinyVLA, load, success
from gpulab.model.camera import COLOURS
from gpulab.model.quantised import RECORD, interval
from gpulab.model.train import UNSEEN
from gpulab.model.world import WORDS, frames

EPISODES = 400
NEW_COLOUR = "orange"
WORLD = {"colours": tuple(range(len(COLOURS))), "always": list(COLOURS).index(NEW_COLOUR)}
"""Of ``Worlds``: every instruction names a colour that training left out."""
STEPS, BATCH, SEED = 200, 32, 7
RATES = {"full": 5e-4, "lora": 3e-3}
MATRICES = r"layers\.\d+\.(self_attn|mlp)\.\w+_proj"


def integers(bits: int, group: int | None = None) -> Callable[[TinyVLA], None]:
    """Symmetric whole numbers with a scale a row, or a group of a row. torchao keeps each in a byte."""
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    config = IntxWeightOnlyConfig(getattr(torch, f"int{bits}"), PerGroup(group) if group else PerAxis(0))
    return lambda policy: quantize_(policy.layers, config)


def int8(policy: TinyVLA) -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    quantize_(policy.layers, Int8WeightOnlyConfig())


def int4(group: int) -> Callable[[TinyVLA], None]:
    """Two whole numbers in a byte, a scale and a zero point a group."""
    from torchao.prototype.quantization.int4.inference_workflow import PrototypeInt4WeightOnlyConfig
    from torchao.quantization import quantize_

    return lambda policy: quantize_(policy.layers, PrototypeInt4WeightOnlyConfig(group_size=group))


def fp8(policy: TinyVLA) -> None:
    from torchao.quantization import Float8WeightOnlyConfig, quantize_

    quantize_(policy.layers, Float8WeightOnlyConfig())


def nvfp4(policy: TinyVLA) -> None:
    from torchao.prototype.mx_formats import NVFP4WeightOnlyConfig
    from torchao.quantization import quantize_

    quantize_(policy.layers, NVFP4WeightOnlyConfig())


def nothing(policy: TinyVLA) -> None:
    pass


FORMATS: dict[str, tuple[torch.dtype, Callable[[], Callable[[TinyVLA], None]]]] = {
    "float32": (torch.float32, lambda: nothing),
    "bfloat16": (torch.bfloat16, lambda: nothing),
    "int8, a scale a row": (torch.bfloat16, lambda: int8),
    "float8 e4m3, a scale a row": (torch.bfloat16, lambda: fp8),
    "int4, groups of 32": (torch.bfloat16, lambda: int4(32)),
    "int4, groups of 64": (torch.bfloat16, lambda: int4(64)),
    "int4, groups of 128": (torch.bfloat16, lambda: int4(128)),
    "NVFP4, blocks of 16": (torch.bfloat16, lambda: nvfp4),
    "4 bits in a byte, a scale a row": (torch.bfloat16, lambda: integers(4)),
    "3 bits in a byte, groups of 32": (torch.bfloat16, lambda: integers(3, 32)),
    "3 bits in a byte, a scale a row": (torch.bfloat16, lambda: integers(3)),
    "2 bits in a byte, groups of 32": (torch.bfloat16, lambda: integers(2, 32)),
    "2 bits in a byte, a scale a row": (torch.bfloat16, lambda: integers(2)),
}
"""What the embeddings and norms are, and what is done to the matrices of the layers."""

ADAPTED = {
    "all weights": (None, "float32"),
    "LoRA of rank 2": (2, "float32"),
    "LoRA of rank 8": (8, "float32"),
    "LoRA of rank 32": (32, "float32"),
    "LoRA of rank 8 on int8": (8, "int8, a scale a row"),
    "LoRA of rank 8 on NVFP4": (8, "NVFP4, blocks of 16"),
}
"""Rank of the adapters, None without any, and the format of what they are added to."""


def policy_in(fmt: str) -> TinyVLA:
    """The trained policy with its weights in a format, a key of ``FORMATS``."""
    dtype, quantise = FORMATS[fmt]
    policy = load(dtype=dtype)
    quantise()(policy)
    return policy


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Of the storages under the tensors, each once; a quantised tensor holds several."""
    held = [storage for tensor in tensors for storage in storages(tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in held}.values())


def kept(policy: nn.Module) -> list[Tensor]:
    return [*policy.parameters(), *policy.buffers()]


def judged(policy: nn.Module, seed: int | list[int], episodes: int, **world) -> dict:
    share = success(policy, episodes, seed, **world)
    spread = interval(round(share * episodes), episodes)
    return {"success": round(share, 4), "spread": [round(edge, 4) for edge in spread]}


def weights(name: str, episodes: int = EPISODES) -> dict:
    """The point of a format: bytes of the whole policy, bits a weight of the layers, success."""
    policy = policy_in(name)
    matrices = [module.weight for module in policy.layers.modules() if isinstance(module, nn.Linear)]
    held = {"bytes": bytes_of(kept(policy)), "matrices_bytes": bytes_of(matrices)}
    held["bits_held"] = round(8 * held["matrices_bytes"] / sum(matrix.numel() for matrix in matrices), 4)
    return {"name": name, **held, **judged(policy, UNSEEN, episodes)}


def with_adapters(policy: TinyVLA, rank: int | None) -> list[nn.Parameter]:
    """What is trained: the adapters that are added to every matrix of the layers, or all weights."""
    if rank is not None:
        from peft import LoraConfig, inject_adapter_in_model

        inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=MATRICES), policy)
    trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.data = parameter.data.float()  # beside weights of 16 bits peft's adapters get 16 bits
    return trained


def adapt(policy: TinyVLA, trained: list[nn.Parameter], rate: float, steps: int) -> torch.optim.Optimizer:
    """Imitate the expert in the changed world. Returns the optimizer; the last gradients are left in place."""
    optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)
    slower, rng = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps), np.random.default_rng([SEED, 0])
    for _ in range(steps):
        image, text, bins = (torch.from_numpy(each) for each in frames(BATCH, rng, **WORLD))
        optimizer.zero_grad()
        policy.loss(image, text, bins + len(WORDS)).backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        slower.step()
    return optimizer


def adapted(name: str, steps: int = STEPS, episodes: int = EPISODES) -> dict:
    """The point of a way to fine-tune: what is held while it trains, and success in the new world and the old."""
    rank, fmt = ADAPTED[name]
    torch.manual_seed(SEED)
    policy = policy_in(fmt)
    trained, rate = with_adapters(policy, rank), RATES["lora" if rank else "full"]
    begin = time.process_time()
    optimizer = adapt(policy, trained, rate, steps)
    took = round(time.process_time() - begin)
    states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    held = {
        "trainable": sum(parameter.numel() for parameter in trained),
        "parameter_bytes": bytes_of(kept(policy)),
        "gradient_bytes": bytes_of(parameter.grad for parameter in trained if parameter.grad is not None),
        "optimizer_bytes": bytes_of(states),
    }
    old = judged(policy, UNSEEN, episodes)
    now = judged(policy, [SEED, 2], episodes, **WORLD)
    told = {"name": name, "rank": rank, "base": fmt, "rate": rate, **held, "cpu_seconds": took, **now}
    return told | {"success_before": old["success"], "spread_before": old["spread"]}


def how() -> dict:
    """Versions, seeds, date and device."""
    libraries = {name: version(name) for name in ("torch", "torchao", "peft", "numpy")}
    device = {"device": "cpu", "processor": platform.machine(), "threads": torch.get_num_threads()}
    seeds = {"episodes": EPISODES, "unseen_seed": UNSEEN, "new_world": WORLD, "new_world_seed": [SEED, 2]}
    training = {"steps": STEPS, "batch": BATCH, "seed": SEED}
    return {
        "date": datetime.date.today().isoformat(),
        **device,
        "versions": libraries | {"python": platform.python_version()},
        **seeds,
        "training": training,
        "unadapted": judged(load(), [SEED, 2], EPISODES, **WORLD),
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--only", nargs="+", default=[*FORMATS, *ADAPTED], help="names of points")
    asked.add_argument("--write", action="store_true", help="write gpulab/model/quantised.json; points left out stay")
    options = asked.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("torchao").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    told = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {"weights": [], "adapted": []}
    for name in options.only:
        kind, point = ("weights", weights(name)) if name in FORMATS else ("adapted", adapted(name))
        print(point, flush=True)
        told[kind] = [*(other for other in told[kind] if other["name"] != name), point]
        if options.write:
            keep(told)
    if options.write:
        keep(told | how())


def keep(told: dict) -> None:
    order = [*FORMATS, *ADAPTED]
    for kind in ("weights", "adapted"):
        told[kind].sort(key=lambda point: order.index(point["name"]))
    RECORD.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
