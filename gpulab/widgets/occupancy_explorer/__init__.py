"""What a multiprocessor holds, and the waves of a launch, in the reader's hand."""

import dataclasses

import anywidget
import traitlets

from gpulab.cards.cards import CARDS, card_named
from gpulab.widgets._source import module, style


class OccupancyExplorer(anywidget.AnyWidget):
    """Threads, registers, shared memory and blocks of a launch; the reader moves them. With a quiz.

    Args:
        card: key of one of ``gpulab.cuda.CARDS``.
        threads: of a block, 1 to 1024. registers: of a thread, 8 to 255. shared: bytes of a block, 0 to 98304.
        blocks: launched, 1 to 4096.
        seed: of the quiz.

    Raises:
        ValueError: for an unknown card or a number out of its range.
    """

    _esm = module("occupancy_explorer")
    _css = style("occupancy_explorer")
    card = traitlets.Unicode().tag(sync=True)
    threads = traitlets.Int().tag(sync=True)
    registers = traitlets.Int().tag(sync=True)
    shared = traitlets.Int().tag(sync=True)
    blocks = traitlets.Int().tag(sync=True)
    seed = traitlets.Int(1).tag(sync=True)
    cards = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode("Occupancy and waves").tag(sync=True)

    def __init__(
        self,
        card: str = "A10",
        threads: int = 256,
        registers: int = 32,
        shared: int = 0,
        blocks: int = 440,
        seed: int = 1,
    ):
        if not (1 <= threads <= 1024 and 8 <= registers <= 255 and 0 <= shared <= 98304 and 1 <= blocks <= 4096):
            raise ValueError("threads 1 to 1024, registers 8 to 255, shared 0 to 98304 bytes, blocks 1 to 4096")
        super().__init__(
            card=card_named(card).key,
            threads=threads,
            registers=registers,
            shared=shared,
            blocks=blocks,
            seed=seed,
            cards={key: _multiprocessor(known) for key, known in CARDS.items()},
        )


def _multiprocessor(card) -> dict:
    from gpulab.cards.multiprocessors import multiprocessor

    sm = dataclasses.asdict(multiprocessor(card.capability))
    return {**sm, "capability": list(card.capability), "multiprocessors": card.multiprocessors}
