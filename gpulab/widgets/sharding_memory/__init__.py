"""What each rank holds and sends under data parallelism and ZeRO's three stages, against a card."""

from dataclasses import asdict

import anywidget
import traitlets

from gpulab.cards.cards import CARDS, card_named
from gpulab.collectives.network.algorithms import Shape as Group
from gpulab.collectives.network.algorithms import ring
from gpulab.memory import OPTIMIZERS, PRECISIONS, Job, Shape, plan
from gpulab.memory.job import STATE_BLOCK
from gpulab.memory.planner import optimizer_state, weights
from gpulab.widgets._source import module, style

STAGES = {
    0: ("all_reduce",),
    1: ("reduce_scatter", "all_gather"),
    2: ("reduce_scatter", "all_gather"),
    3: ("all_gather", "all_gather", "reduce_scatter"),
}
"""What crosses of every parameter in a step: gradients are summed; weights are gathered after the update, or before each use."""

RECIPES = tuple(name for name, one in PRECISIONS.items() if not one.autocast)
"""Those whose weights and gradients cross as they are held. Autocast holds what fp32 holds."""

BILLIONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7.5, 10, 13, 20, 30, 50, 70, 100, 175, 300, 500, 1000)
MOST_RANKS = 1024


class ShardingMemory(anywidget.AnyWidget):
    """Weights, gradients and optimizer state of each rank by stage; the reader moves model, ranks, recipe and card.

    Args:
        billions: of parameters, one of :data:`BILLIONS`. ranks: a power of two, 1 to 1024. precision: of :data:`RECIPES`.
        optimizer: of ``gpulab.memory.OPTIMIZERS``. card: key of one of ``gpulab.cuda.CARDS``.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("sharding_memory")
    _css = style("sharding_memory")
    billions = traitlets.Float().tag(sync=True)
    ranks = traitlets.Int().tag(sync=True)
    precision = traitlets.Unicode().tag(sync=True)
    optimizer = traitlets.Unicode().tag(sync=True)
    card = traitlets.Unicode().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        billions: float = 7.5,
        ranks: int = 64,
        precision: str = "bf16 with master weights",
        optimizer: str = "adamw",
        card: str = "H100",
    ):
        if ranks not in (2**power for power in range(MOST_RANKS.bit_length())):
            raise ValueError(f"ranks is a power of two from 1 to {MOST_RANKS}, not {ranks}")
        given = (
            ("billions", billions, BILLIONS),
            ("precision", precision, RECIPES),
            ("optimizer", optimizer, OPTIMIZERS),
        )
        for name, value, choices in given:
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
        super().__init__(
            billions=billions,
            ranks=ranks,
            precision=precision,
            optimizer=optimizer,
            card=card_named(card).key,
            known=_known(),
        )

    def held(self, stage: int) -> dict[str, int]:
        """Bytes of a rank by term, as ``gpulab.memory.plan`` counts them when all gradients are there."""
        recipe = {"precision": self.precision, "optimizer": self.optimizer}
        job = Job(_bare(round(self.billions * 1e9)), **recipe, stage=stage, world=self.ranks)
        gradients = plan(job, self.card).moments["in the embedding's backward pass"]["gradients"]
        return {"parameters": weights(job)["parameters"], "gradients": gradients, **optimizer_state(job)}

    def sent(self, stage: int) -> float:
        """Bytes that each rank sends in a step, by rings."""
        nbytes = PRECISIONS[self.precision].weights * round(self.billions * 1e9)
        return sum(ring(kind, nbytes, Group(1, self.ranks)).bytes_inside for kind in STAGES[stage])


def _bare(parameters: int) -> Shape:
    """A model of so many parameters, of whose layers nothing is said."""
    return Shape(width=0, layers=0, heads=1, kv_heads=1, hidden=0, vocabulary=0, sequence=1, others=parameters)


def _known() -> dict:
    """What the browser needs of Python's tables."""
    return {
        "billions": list(BILLIONS),
        "most_ranks": MOST_RANKS,
        "precisions": {name: {**asdict(PRECISIONS[name]), "state": PRECISIONS[name].state} for name in RECIPES},
        "optimizers": list(OPTIMIZERS),
        "state_block": STATE_BLOCK,
        "stages": {str(stage): list(kinds) for stage, kinds in STAGES.items()},
        "cards": {key: {"name": card.name, "bytes": card.memory_bytes} for key, card in CARDS.items()},
    }
