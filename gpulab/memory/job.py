"""The job that the planner is asked about: a model, and how it is trained or served."""

from dataclasses import dataclass
from typing import Literal

from gpulab.memory.shapes import Shape, shape_of
from gpulab.model.config import Config


@dataclass(frozen=True)
class Precision:
    """Bytes an element. ``master``: of a copy that the optimizer keeps. ``autocast``: weights are cast as they are used."""

    weights: int
    activations: int
    master: int = 0
    autocast: bool = False

    @property
    def state(self) -> int:
        """Of one Adam moment."""
        return self.master or self.weights


PRECISIONS = {
    "fp32": Precision(4, 4),
    "mixed bf16": Precision(4, 2, autocast=True),
    "mixed fp16": Precision(4, 2, autocast=True),
    "bf16": Precision(2, 2),
    "bf16 with master weights": Precision(2, 2, master=4),
}
"""``mixed``: PyTorch's autocast over float32 weights; with sharding stage 3, FSDP's, which gathers 16-bit copies.
``bf16 with master weights``: 16-bit weights and gradients, a float32 copy with the optimizer,
whose step takes gradients in float32 (Megatron, DeepSpeed)."""

OPTIMIZERS = ("sgd", "adamw", "adamw 8-bit")
STATE_BLOCK, WEIGHT_BLOCK = 256, 64
"""Elements that share one float32 scale: of an 8-bit optimizer's state, of 4-bit weights (bitsandbytes' sizes)."""


@dataclass(frozen=True)
class Job:
    """One plan to ask for.

    config: a TinyVLA's ``Config`` or a :class:`Shape`. mode: "train" or "serve". batch: sequences a GPU.
    sequence: tokens of each, None for the model's own. precision: of :data:`PRECISIONS`. optimizer: of
    :data:`OPTIMIZERS`; "sgd" has no momentum. lora: the rank, of ``lora_on``; all else is frozen then.
    weight_bits: 16 for the precision's own, 8 or 4 for the layers' matrices, frozen, with a float32 scale
    for every row (8) or every 64 elements (4). checkpointing: False, True (layer by layer), or "selective" (torchtitan's: every
    second product and attention are kept). stage, world: what ZeRO shards over how many GPUs: 1 optimizer state,
    2 gradients too, 3 weights too. attention: "fused" keeps no scores, "written out" keeps them. foreach: whether
    the optimizer works on all tensors at once, as PyTorch's does on a GPU if nothing is said. accumulate: whether
    gradients of earlier batches are kept while the next one passes through.
    Raises ValueError for what does not go together.
    """

    config: Config | Shape
    mode: Literal["train", "serve"] = "train"
    batch: int = 1
    sequence: int | None = None
    precision: str = "bf16"
    optimizer: str = "adamw"
    lora: int | None = None
    weight_bits: int = 16
    checkpointing: bool | str = False
    stage: int = 0
    world: int = 1
    attention: Literal["fused", "written out"] = "fused"
    lora_on: tuple[str, ...] = ("q_proj", "v_proj")
    foreach: bool = True
    accumulate: bool = False

    def __post_init__(self) -> None:
        for name, known in (
            ("mode", ("train", "serve")),
            ("precision", tuple(PRECISIONS)),
            ("optimizer", OPTIMIZERS),
            ("weight_bits", (4, 8, 16)),
            ("checkpointing", (False, True, "selective")),
            ("stage", (0, 1, 2, 3)),
            ("attention", ("fused", "written out")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}: one of {', '.join(map(repr, known))}")
        for name in ("batch", "world", "lora", "sequence"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: at least 1")
        if self.mode == "train" and self.weight_bits != 16 and not self.lora:
            raise ValueError("quantised weights are frozen: training them asks for lora, a rank")
        if unknown := set(self.lora_on) - set(self.shape.products):
            raise ValueError(f"no linear layer is called {', '.join(sorted(unknown))}")

    @property
    def shape(self) -> Shape:
        return shape_of(self.config)

    @property
    def tokens(self) -> int:
        """In the batch of one GPU."""
        return self.batch * self.length

    @property
    def length(self) -> int:
        return self.sequence or self.shape.sequence

    @property
    def logits(self) -> int:
        """Tokens of the batch whose logits are computed."""
        return self.tokens if self.shape.read is None else self.batch * self.shape.read

    @property
    def bytes(self) -> Precision:
        """FSDP casts what it gathers: inside, all is 16 bits wide, and nothing is cast again."""
        chosen = PRECISIONS[self.precision]
        return Precision(4, 2) if chosen.autocast and self.stage == 3 else chosen

    @property
    def adapters(self) -> int:
        """Parameters of LoRA's pairs of matrices."""
        each = sum(sum(self.shape.products[name]) for name in self.lora_on)
        everywhere = set(self.lora_on) == set(self.shape.products)
        return (self.lora or 0) * (self.shape.layers * each + (self.shape.elsewhere if everywhere else 0))
