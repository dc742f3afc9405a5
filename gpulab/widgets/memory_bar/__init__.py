"""What a model takes of a card, term by term, in the reader's hand: ``gpulab.memory.plan`` as a bar."""

from dataclasses import asdict

import anywidget
import traitlets

from gpulab.cards.cards import CARDS, card_named
from gpulab.memory import OPTIMIZERS, PRECISIONS, SHAPES, Job, Plan, plan
from gpulab.memory.job import STATE_BLOCK, WEIGHT_BLOCK
from gpulab.memory.planner import CONTEXT
from gpulab.memory.shapes import Shape, shape_of
from gpulab.model import SIZES
from gpulab.widgets._source import module, style

MODELS = {**{f"TinyVLA {name}": shape_of(config) for name, config in SIZES.items()}, **SHAPES}
ADAPTED = {"queries and values": ("q_proj", "v_proj"), "all linear layers": None}
"""What LoRA is put on, by the widget's name for it; None for all."""


class MemoryBar(anywidget.AnyWidget):
    """A job's memory against a card's; the reader moves model, recipe and card.

    Args:
        model: of :data:`MODELS`. card: key of one of ``gpulab.cuda.CARDS``. mode, batch, precision, optimizer,
        weight_bits, stage, world: as of ``gpulab.memory.Job``. sequence: 0 for the model's own. lora: 0 for none.
        adapted: of :data:`ADAPTED`. checkpointing: "none", "every layer" or "selective".

    Raises:
        ValueError: for what is not among the choices, or does not go together.
    """

    _esm = module("memory_bar")
    _css = style("memory_bar")
    model = traitlets.Unicode().tag(sync=True)
    card = traitlets.Unicode().tag(sync=True)
    mode = traitlets.Unicode().tag(sync=True)
    batch = traitlets.Int().tag(sync=True)
    sequence = traitlets.Int().tag(sync=True)
    precision = traitlets.Unicode().tag(sync=True)
    optimizer = traitlets.Unicode().tag(sync=True)
    lora = traitlets.Int().tag(sync=True)
    adapted = traitlets.Unicode().tag(sync=True)
    weight_bits = traitlets.Int().tag(sync=True)
    checkpointing = traitlets.Unicode().tag(sync=True)
    attention = traitlets.Unicode().tag(sync=True)
    stage = traitlets.Int().tag(sync=True)
    world = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        model: str = "TinyVLA 7B",
        card: str = "RTX4090",
        mode: str = "train",
        batch: int = 1,
        sequence: int = 0,
        precision: str = "mixed bf16",
        optimizer: str = "adamw",
        lora: int = 0,
        adapted: str = "all linear layers",
        weight_bits: int = 16,
        checkpointing: str = "none",
        attention: str = "fused",
        stage: int = 0,
        world: int = 1,
    ):
        if model not in MODELS or adapted not in ADAPTED or checkpointing not in _CHECKPOINTING:
            raise ValueError(
                f"{model}, {adapted}, {checkpointing}: one of {', '.join(MODELS)}; of {', '.join(ADAPTED)}; of {', '.join(_CHECKPOINTING)}"
            )
        super().__init__(
            model=model,
            card=card_named(card).key,
            mode=mode,
            batch=batch,
            sequence=sequence,
            precision=precision,
            optimizer=optimizer,
            lora=lora,
            adapted=adapted,
            weight_bits=weight_bits,
            checkpointing=checkpointing,
            attention=attention,
            stage=stage,
            world=world,
            known=_known(),
        )
        self.planned()

    def planned(self) -> Plan:
        """The same job, planned by ``gpulab.memory``. Raises ValueError for what does not go together."""
        shape = MODELS[self.model]
        on = ADAPTED[self.adapted] or tuple(shape.products)
        job = Job(
            shape,
            self.mode,
            self.batch,
            self.sequence or None,
            self.precision,
            self.optimizer,
            self.lora or None,
            self.weight_bits,
            _CHECKPOINTING[self.checkpointing],
            self.stage,
            self.world,
            self.attention,
            on,
        )
        return plan(job, self.card)


_CHECKPOINTING = {"none": False, "every layer": True, "selective": "selective"}


def _known() -> dict:
    """What the browser needs of Python's tables."""
    return {
        "models": {name: _shape(shape) for name, shape in MODELS.items()},
        "cards": {key: {"name": card.name, "bytes": card.memory_bytes} for key, card in CARDS.items()},
        "precisions": {name: {**asdict(one), "state": one.state} for name, one in PRECISIONS.items()},
        "optimizers": list(OPTIMIZERS),
        "adapted": {name: list(on) if on else None for name, on in ADAPTED.items()},
        "state_block": STATE_BLOCK,
        "weight_block": WEIGHT_BLOCK,
        "context": CONTEXT,
    }


def _shape(shape: Shape) -> dict:
    derived = (
        "queries",
        "keys",
        "products",
        "layer_matrices",
        "layer_rows",
        "norm",
        "layer_parameters",
        "embedding",
        "outside",
        "parameters",
    )
    return {**asdict(shape), **{name: getattr(shape, name) for name in derived}}
