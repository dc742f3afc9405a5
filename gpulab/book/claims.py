"""The ledger of claims: what people say, judged, and what settles it."""

from dataclasses import dataclass
from pathlib import Path

from pybtex.database import BibliographyData, parse_file

from gpulab.book.contents import FILE, Contents
from gpulab.book.settlement import MODEL, Settlement
from gpulab.book.table import Table, render
from gpulab.yaml_files import read_yaml

SUFFIX = ".claims.yml"
"""Of the file beside a page that holds its claims."""
VERDICTS = ("correct", "imprecise", "depends", "outdated", "wrong")


@dataclass(frozen=True)
class Claim:
    """One claim. Texts may hold `code` between backticks.

    `settled` says what settles it, and how. `open` is said of a claim that only the model settles.
    """

    id: str
    chapter: str
    source: str
    quote: str
    verdict: str
    right: str
    settled: tuple[Settlement, ...] = ()
    open: bool = False
    implied: bool = False

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.id}: {self.verdict!r} is no verdict; use one of {', '.join(VERDICTS)}")
        if not self.settled:
            raise ValueError(f"{self.id}: nothing settles it; name a test, a record or a source")
        if self.open != all(one.word == MODEL for one in self.settled):
            raise ValueError(
                f"{self.id}: a claim that is settled in the model alone says `open: true`, and no other claim does"
            )

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that settle it, real or modelled."""
        return tuple(one.name for one in self.settled if one.is_test)


@dataclass(frozen=True)
class Ledger:
    """All claims of the book, with their sources and the bibliography they cite.

    `waiting` holds the ids of those that drafts examine: nobody has looked at them yet. What settles a claim is named
    relative to `root`, the repository.
    """

    claims: tuple[Claim, ...]
    sources: dict[str, str]
    bibliography: BibliographyData
    waiting: frozenset[str] = frozenset()
    root: Path = Path()

    @classmethod
    def read(cls, chapters: Path, draft: str | None = None) -> "Ledger":
        """Read the claims beside the pages, `claims.yml` and `references.bib` in the folder `chapters` of a repository.

        Of the chapters in the book, and of the `draft` that is named, such as "many_gpus/sharding".

        Raises:
            ValueError: for a claim that lacks a field, a verdict or what settles it, or that
                names a test, a record or a source which does not exist.
        """
        bibliography = parse_file(chapters / "references.bib", bib_format="bibtex")
        drafts, every = _drafts(chapters) - {draft}, records(chapters)
        claims = tuple(_claim(record) for record in every if record["chapter"] not in drafts)
        for claim in claims:
            _check(claim, chapters.parent, bibliography)
        waiting = frozenset(record["id"] for record in every if record["chapter"] in drafts)
        return cls(claims, read_yaml(chapters / "claims.yml")["sources"], bibliography, waiting, chapters.parent)

    def of(self, chapter: str) -> tuple[Claim, ...]:
        """The claims of one chapter, such as "tensors/views". Raises KeyError if it has none."""
        found = tuple(claim for claim in self.claims if claim.chapter == chapter)
        if not found:
            raise KeyError(f"no claims beside the chapter: chapters/{chapter}{SUFFIX}")
        return found


def claims_table(chapter: str | None = None) -> Table:
    """The table of one chapter's claims, or of the whole book's, for a page's cell to show."""
    ledger = Ledger.read(chapters_folder(Path.cwd()), chapter)
    return render(ledger.claims, ledger, whole=True) if chapter is None else render(ledger.of(chapter), ledger)


def records(chapters: Path) -> list[dict]:
    """The claims of all chapters, drafts too, in the order of the chapters; `chapter`, as "tensors/views", is the file's."""
    names = [path.relative_to(chapters).as_posix().removesuffix(SUFFIX) for path in chapters.glob(f"*/*{SUFFIX}")]
    numbers = Contents.read(chapters.parent).numbers if (chapters.parent / FILE).is_file() else {}
    names.sort(key=lambda name: (numbers.get(f"chapters/{name}", len(numbers)), name))
    return [{**record, "chapter": name} for name in names for record in read_yaml(chapters / f"{name}{SUFFIX}") or ()]


def _drafts(chapters: Path) -> set[str]:
    """Their pages, as a claim names its chapter; none where there is no table of contents."""
    there = (chapters.parent / FILE).is_file()
    return {page.removeprefix("chapters/") for page in Contents.read(chapters.parent).draft_pages} if there else set()


def _claim(record: dict) -> Claim:
    try:
        settled = tuple(map(Settlement.read, record.get("settled") or ()))
        return Claim(**{**record, "settled": settled})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{record['chapter']}{SUFFIX}, {record.get('id', 'a claim with no id')}: {error}") from error


def _check(claim: Claim, root: Path, bibliography: BibliographyData) -> None:
    for one in claim.settled:
        try:
            one.check(root, bibliography)
        except ValueError as error:
            raise ValueError(f"{claim.id} is settled by {error}") from error


def chapters_folder(start: Path) -> Path:
    """The folder of chapters of the repository that `start` lies in. Raises FileNotFoundError outside of one."""
    for folder in (start, *start.parents):
        for candidate in (folder, folder / "chapters"):
            if (candidate / "claims.yml").is_file():
                return candidate
    raise FileNotFoundError(f"no claims.yml in {start} or above: run this page from a copy of the course's repository")
