"""Claims as an HTML table that turns into cards on a phone and stays a table to a reader's ear."""

import html
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpulab.book.settlement import MEASURED, OPEN, Settlement, published
from gpulab.published import Measurement

if TYPE_CHECKING:
    from gpulab.book.claims import Claim, Ledger

STYLE = Path(__file__).with_name("table.css")
HEADINGS = ("They say", "Verdict", "What is right", "Settled by")
_BRACES = str.maketrans("", "", "{}\\")


@dataclass(frozen=True)
class Table:
    """HTML for a notebook or a page."""

    html: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return "A table of claims: see it in a notebook or in the book."


def render(claims: Iterable["Claim"], ledger: "Ledger", whole: bool = False) -> Table:
    """The table of `claims`, in order. The `whole` book's is searched and filtered where a page has the script for it."""
    heads = "".join(f'<th role="columnheader" scope="col">{heading}</th>' for heading in HEADINGS)
    rows = "".join(_row(claim, ledger) for claim in claims)
    return Table(
        f"<style>{STYLE.read_text(encoding='utf-8')}</style>"
        f'<table class="gpulab-claims{" whole" if whole else ""}" role="table" aria-label="Claims and what is right">'
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>'
        f'<tbody role="rowgroup">{rows}</tbody></table>'
    )


def _row(claim: "Claim", ledger: "Ledger") -> str:
    said = "implied" if claim.implied else "said"
    source = ledger.sources[claim.source.split(",")[0]] + claim.source[claim.source.index(",") :]
    verdict = f'<strong class="{claim.verdict}">{claim.verdict}</strong>'
    cells = (
        f"<q>{prose(claim.quote)}</q><small>{claim.id}, {said} in {html.escape(source)}</small>",
        verdict,
        prose(claim.right),
        _settled(claim, ledger),
    )
    about = {
        "verdict": claim.verdict,
        "chapter": claim.chapter,
        "settled": ",".join(dict.fromkeys(one.word for one in claim.settled)),
    }
    data = "".join(f' data-{name}="{html.escape(value)}"' for name, value in about.items())
    return f'<tr role="row" id="{claim.id}"{data}>' + "".join(map(_cell, HEADINGS, cells)) + "</tr>"


def _cell(heading: str, content: str) -> str:
    # The pseudo-element that shows the heading on phones is decoration: hence data-.
    return f'<td role="cell" data-heading="{heading}"><div>{content}</div></td>'


def _settled(claim: "Claim", ledger: "Ledger") -> str:
    found = [f"<li><b>{one.word.capitalize()}:</b> {_named(one, ledger)}</li>" for one in claim.settled]
    still = f"<em>{OPEN}</em>" if claim.open else ""
    return f"<ul>{''.join(found)}</ul>{still}"


def _named(one: Settlement, ledger: "Ledger") -> str:
    if one.is_test:
        name = one.name.rsplit("::", 1)[1].removeprefix("test_").replace("_", " ")
        return f'<span title="{html.escape(one.name)}">{html.escape(name)}.</span>'
    if one.word == MEASURED:
        return f"on {html.escape(_measured_on(ledger.root / one.name))} (<code>{html.escape(one.name)}</code>)"
    if one.name in ledger.bibliography.entries:
        fields = ledger.bibliography.entries[one.name].fields
        return _link(fields["url"], fields["title"].translate(_BRACES))
    return _figure(published(one.name))


@cache
def _measured_on(record: Path) -> str:
    """The card and the date of a record."""
    said = json.loads(record.read_text(encoding="utf-8"))
    return f"{said['device']}, {said['date']}"


def _figure(figure: Measurement) -> str:
    said = f"{figure.what}: {figure.value:g} {figure.unit}, {figure.card}"
    return f"{html.escape(said)} ({_link(figure.source.url, figure.source.title)}, {figure.source.year})"


def _link(url: str, text: str) -> str:
    return f'<a href="{html.escape(url)}">{html.escape(text)}</a>'


def prose(text: str) -> str:
    """Text with `code` between backticks, as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
