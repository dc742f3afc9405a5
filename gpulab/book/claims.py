"""The ledger of claims: what people say, judged, and what settles it."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from pybtex.database import BibliographyData, parse_file

from gpulab.book.table import Table, render

VERDICTS = ("correct", "imprecise", "depends", "outdated", "wrong")


@dataclass(frozen=True)
class Claim:
    """One claim. Texts may hold `code` between backticks.

    `test` is a pytest node id relative to the repository, `cite` a key of the bibliography;
    at least one of them is given.
    """

    id: str
    chapter: str
    source: str
    quote: str
    verdict: str
    right: str
    test: str | None = None
    cite: str | None = None
    implied: bool = False

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.id}: {self.verdict!r} is no verdict; use one of {', '.join(VERDICTS)}")
        if self.test is None and self.cite is None:
            raise ValueError(f"{self.id}: nothing settles it; name a test or a bibliography key")


@dataclass(frozen=True)
class Ledger:
    """All claims of the book, with their sources and the bibliography they cite."""

    claims: tuple[Claim, ...]
    sources: dict[str, str]
    bibliography: BibliographyData

    @classmethod
    def read(cls, chapters: Path) -> "Ledger":
        """Read `claims.yml` and `references.bib` in the folder `chapters`.

        Raises:
            ValueError: for a claim that lacks a field, a verdict or what settles it.
        """
        data = yaml.safe_load((chapters / "claims.yml").read_text(encoding="utf-8"))
        bibliography = parse_file(chapters / "references.bib", bib_format="bibtex")
        return cls(tuple(map(_claim, data["claims"])), data["sources"], bibliography)

    def of(self, chapter: str) -> tuple[Claim, ...]:
        """The claims of one chapter, such as "tensors/views". Raises KeyError if it has none."""
        found = tuple(claim for claim in self.claims if claim.chapter == chapter)
        if not found:
            raise KeyError(f"no claim in claims.yml names the chapter {chapter!r}")
        return found


def claims_table(chapter: str | None = None) -> Table:
    """The table of one chapter's claims, or of the whole book's, for a page's cell to show."""
    ledger = Ledger.read(_chapters(Path.cwd()))
    return render(ledger.claims if chapter is None else ledger.of(chapter), ledger)


def _claim(record: dict) -> Claim:
    settled = record.pop("settled", {})
    try:
        return Claim(**record, **settled)
    except TypeError as error:
        raise ValueError(f"claims.yml, {record.get('id', 'a claim with no id')}: {error}") from error


def _chapters(start: Path) -> Path:
    for folder in (start, *start.parents):
        for candidate in (folder, folder / "chapters"):
            if (candidate / "claims.yml").is_file():
                return candidate
    raise FileNotFoundError(
        f"no claims.yml in {start} or above: run this page from a copy of the course's repository"
    )
