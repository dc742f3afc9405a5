"""The interview bank on its page: as text that folds, and as what the widget of cards asks."""

import html
from functools import cache
from pathlib import Path

from gpulab.book.claims import chapters_folder
from gpulab.book.interview import Bank, Card, Link
from gpulab.book.table import prose

STYLE = Path(__file__).with_name("deck.css")


class Cards:
    """The cards of one part of the book, as HTML."""

    def __init__(self, html: str):
        self._html = html

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return "Interview questions: see them in a notebook or in the book."


def interview_cards(stage: int) -> Cards:
    """The questions of one part, each with its answer behind a fold, for a page's cell to show."""
    bank = _bank(chapters_folder(Path.cwd()))
    folds = "".join(_fold(bank, card) for card in bank.of(stage))
    return Cards(f'<style>{STYLE.read_text(encoding="utf-8")}</style><div class="interview-cards">{folds}</div>')


def interview_deck() -> list[dict]:
    """All cards as the widget gets them: texts, the part's number, and links as pairs of an address and its words."""
    bank = _bank(chapters_folder(Path.cwd()))
    return [
        {
            "id": card.id,
            "stage": bank.stage(card),
            "question": card.question,
            "answer": card.answer,
            "notes": list(map(list, _notes(card))),
            "links": [[link.href, link.text] for link in bank.links(card)],
        }
        for card in bank.cards
    ]


def stages() -> list[str]:
    """The parts of the book, in order."""
    return list(_bank(chapters_folder(Path.cwd())).stages.values())


@cache
def _bank(chapters: Path) -> Bank:
    return Bank.read(chapters)


def _fold(bank: Bank, card: Card) -> str:
    parts = [f"<p>{prose(card.answer)}</p>"]
    parts += [f"<p><b>{kind}</b> {prose(text)}</p>" for kind, text in _notes(card)]
    parts += [f"<ul>{''.join(map(_item, bank.links(card)))}</ul>"] if bank.links(card) else []
    parts += [f"<small>{origin}</small>"] if (origin := _origin(bank, card)) else []
    return f'<details id="{card.id}"><summary>{prose(card.question)}</summary>{"".join(parts)}</details>'


def _origin(bank: Bank, card: Card) -> str:
    """Where the notes ask it, and under which claims of the ledger their answer is judged."""
    claims = ", ".join(f'<a href="{link.href}">{link.text}</a>' for link in bank.judged(card))
    return "; ".join(filter(None, (html.escape(bank.asked(card) or ""), claims and f"judged under {claims}")))


def _notes(card: Card) -> list[tuple[str, str]]:
    told = (("The notes say:", card.said), ("What is wrong:", card.wrong))
    return [(kind, text) for kind, text in told if text]


def _item(link: Link) -> str:
    return f'<li><a href="{html.escape(link.href)}">{prose(link.text)}</a></li>'
