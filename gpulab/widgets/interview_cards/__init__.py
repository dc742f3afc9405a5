"""Interview questions as cards: answer aloud, uncover, grade yourself, and see each again when it is due."""

from collections.abc import Sequence

import anywidget
import traitlets

from gpulab.widgets._source import module, style


class InterviewCards(anywidget.AnyWidget):
    """Cards under SM-2 (:mod:`gpulab.widgets.interview_cards.sm2`). What a reader has graded stays in the browser.

    Args:
        cards: dictionaries with id, stage (from 1 on), question, answer, notes (pairs of a kind and a text) and links
            (pairs of an address and its words). Texts may hold `code` between backticks.
        stages: what the stages are called, in order.
        today: a day to pretend, in days since 1970; else the browser's.

    Raises:
        ValueError: without cards, for an id that two of them have, or a stage without a name.
    """

    _esm = module("interview_cards")
    _css = style("interview_cards")
    cards = traitlets.List().tag(sync=True)
    stages = traitlets.List().tag(sync=True)
    today = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, cards: Sequence[dict], stages: Sequence[str], today: int | None = None):
        ids = [card["id"] for card in cards]
        if not ids or len(ids) != len(set(ids)):
            raise ValueError(f"{len(ids)} cards with {len(set(ids))} ids: give cards, each with an id of its own")
        if not all(1 <= card["stage"] <= len(stages) for card in cards):
            raise ValueError(f"a card's stage is one of 1 to {len(stages)}")
        super().__init__(cards=list(cards), stages=list(stages), today=today)
