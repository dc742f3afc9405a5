"""The interview bank: what is asked, as the course answers it, with the sections and exercises that prove it."""

import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from docutils.nodes import make_id

from gpulab.book.claims import Ledger
from gpulab.book.contents import Contents
from gpulab.yaml_files import read_yaml

FILE = "interview.yml"
LEDGER = "folklore"  # the page of all claims


@dataclass(frozen=True)
class Card:
    """One question. Texts may hold `code` between backticks.

    ``row`` and ``asked``: its row in the course's table of the notes and its place in them, for what the notes ask.
    ``said`` is what they answer, in a sentence, and ``wrong`` what is wrong with it. ``sections`` are
    `page#heading`, `exercises` are `page's name.function`, ``sources`` keys of the bibliography.
    """

    id: str
    chapter: int
    question: str
    answer: str
    row: str | None = None
    asked: str | None = None
    said: str | None = None
    wrong: str | None = None
    claims: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def __post_init__(self):
        if bool(self.row) != bool(self.asked) or (self.said and not self.row) or (self.wrong and not self.said):
            raise ValueError(f"{self.id}: `row` and `asked` go together, `said` needs them, `wrong` needs `said`")


@dataclass(frozen=True)
class Link:
    """What a card points to: an address relative to the folder of chapters, and its words."""

    href: str
    text: str


@dataclass(frozen=True)
class Bank:
    """All cards, in the order of the chapters, and the book that they point into."""

    chapters: Path
    cards: tuple[Card, ...]

    @classmethod
    def read(cls, chapters: Path) -> "Bank":
        """Read `interview.yml` in the folder `chapters` of a repository.

        Raises:
            ValueError: for a card that lacks a field, has one twice, or points to what does not exist.
        """
        records = read_yaml(chapters / FILE)
        bank = cls(chapters, tuple(sorted(map(_card, records), key=lambda card: card.chapter)))
        for card in bank.cards:
            if card.chapter in bank.pages:
                bank._check(card)
        return bank

    @cached_property
    def contents(self) -> Contents:
        return Contents.read(self.chapters.parent)

    @cached_property
    def pages(self) -> dict[int, str]:
        """The page of each chapter that is in the book, such as {1: "tensors/views"}."""
        numbers = self.contents.numbers
        return {numbers[page]: page.removeprefix("chapters/") for page in self.contents.pages if page in numbers}

    @cached_property
    def stages(self) -> dict[int, str]:
        """The parts of the course, from 1 on, by the words of the table of contents."""
        return dict(enumerate(self.contents.parts, 1))

    def stage(self, card: Card) -> int:
        """The part that a card's chapter belongs to, also where its page is not in the book yet."""
        return self.contents.part_of(card.chapter)

    def asked(self, card: Card) -> str | None:
        """Where the notes ask it, in words; nothing for what they do not ask."""
        if card.asked is None:
            return None
        source, _, place = card.asked.partition(",")
        return f"{self.ledger.sources[source]},{place}"

    def of(self, stage: int) -> tuple[Card, ...]:
        """The cards of one part. Raises KeyError if there are none."""
        found = tuple(card for card in self.cards if self.stage(card) == stage)
        if not found:
            raise KeyError(f"no card belongs to part {stage}")
        return found

    def links(self, card: Card) -> tuple[Link, ...]:
        """Where a card's answer is proved; nothing while its chapter is not in the book, and nothing in drafts.

        Raises:
            ValueError: for a section, an exercise or a source that does not exist.
        """
        if card.chapter not in self.pages:
            return ()
        sections = [name for name in card.sections if not self._in_a_draft(name.partition("#")[0])]
        exercises = [name for name in card.exercises if not self._in_a_draft(name.partition(".")[0])]
        kinds = (sections, self._section), (exercises, self._exercise), (card.sources, self._source)
        return tuple(find(card, name) for names, find in kinds for name in names)

    def _in_a_draft(self, page: str) -> bool:
        """`page` as `many_gpus/sharding`, or its last part alone."""
        return page.rpartition("/")[2] in self.contents.draft_names

    def judged(self, card: Card) -> tuple[Link, ...]:
        """The claims of the ledger that a card names; nothing while its chapter is not in the book, and no draft's."""
        shown = [claim for claim in card.claims if card.chapter in self.pages and claim not in self.ledger.waiting]
        return tuple(Link(f"{LEDGER}.html#{claim}", claim) for claim in shown)

    def _check(self, card: Card) -> None:
        known = {claim.id for claim in self.ledger.claims} | self.ledger.waiting
        if unknown := sorted(set(card.claims) - known):
            raise ValueError(f"{card.id}: no claim {', '.join(unknown)} in the ledger")
        self.links(card)

    def _section(self, card: Card, name: str) -> Link:
        page, _, anchor = name.partition("#")
        if f"chapters/{page}" not in self.contents.pages or anchor not in headings(self.chapters / f"{page}.md"):
            raise ValueError(f"{card.id}: no heading {name} in the book")
        title, *_ = (known := headings(self.chapters / f"{page}.md")).values()
        return Link(f"{page}.html#{anchor}", f"{title}: {known[anchor]}")

    def _exercise(self, card: Card, name: str) -> Link:
        stem, _, function = name.partition(".")
        page = {page.rpartition("/")[2]: page for page in self.pages.values()}.get(stem)
        file = self.chapters.parent / f"exercises/{stem}/notebook.py"
        if page is None or f'"{function}_hidden"' not in file.read_text(encoding="utf-8"):
            raise ValueError(f"{card.id}: no exercise {name}")
        return Link(f"{page}.html#exercises", f"Exercise `{function}`")

    def _source(self, card: Card, key: str) -> Link:
        if key not in self.ledger.bibliography.entries:
            raise ValueError(f"{card.id}: no source {key} in references.bib")
        fields = self.ledger.bibliography.entries[key].fields
        return Link(fields["url"], fields["title"].translate(str.maketrans("", "", "{}\\")))

    @cached_property
    def ledger(self) -> Ledger:
        """The claims of the same folder, and the bibliography."""
        return Ledger.read(self.chapters)


@cache
def headings(page: Path) -> dict[str, str]:
    """The headings of a page in order, its title first, by their anchors."""
    prose = re.sub(r"^(```|:::).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#{1,3} (.+)$", prose, flags=re.M)
    return {make_id(title.replace("`", "")): title for title in titles}


def _card(record: dict) -> Card:
    lists = {key: tuple(record.get(key) or ()) for key in ("claims", "sections", "exercises", "sources")}
    texts = {key: value.strip() if isinstance(value, str) else value for key, value in record.items()}
    try:
        return Card(**texts | lists)
    except TypeError as error:
        raise ValueError(f"{FILE}, {record.get('id', 'a card with no id')}: {error}") from error
