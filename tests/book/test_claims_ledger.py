"""The ledger, the chapters, the tests and the bibliography agree with each other."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from gpulab.book import Claim, Ledger, claims_table
from gpulab.book.claims import records
from gpulab.book.contents import Contents
from gpulab.book.settlement import OPEN, WORDS, Settlement, published
from gpulab.book.table import render

ROOT = Path(__file__).parents[2]
CHAPTERS = ROOT / "chapters"
LEDGER = Ledger.read(CHAPTERS)
RECORDS = records(CHAPTERS)
"""Of the whole course: those of drafts, too."""
PAGES = {
    p.relative_to(CHAPTERS).with_suffix("").as_posix(): p.read_text("utf-8") for p in sorted(CHAPTERS.rglob("*.md"))
}
each = pytest.mark.parametrize("page", PAGES)


@cache
def known_to(page: str) -> Ledger:
    """The book's ledger; for a draft's page with the draft's own claims, checked as those of the book are."""
    return LEDGER if f"chapters/{page}" not in Contents.read(ROOT).draft_pages else Ledger.read(CHAPTERS, page)


def test_ids_are_unique_and_well_formed():
    ids = [record["id"] for record in RECORDS]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"C\d{3}", id) for id in ids)


@each
def test_a_page_shows_its_claims_and_no_others(page):
    own = {record["chapter"] for record in RECORDS} & {page}
    assert set(re.findall(r'claims_table\("([^"]+)"\)', PAGES[page])) == own
    assert all(known_to(page).of(chapter) for chapter in own)


def test_every_chapter_of_the_ledger_has_a_page():
    assert {claim.chapter for claim in LEDGER.claims} <= set(PAGES)


@each
def test_every_claim_that_a_page_names_is_in_the_ledger(page):
    known = {claim.id for claim in known_to(page).claims}
    assert set(re.findall(r"\bC\d{3}\b", PAGES[page])) <= known


@each
def test_every_citation_of_a_page_is_in_the_bibliography(page):
    cited = {
        key.strip()
        for keys in re.findall(r"\{(?:foot)?cite(?::\w+)?\}`([^`]+)`", PAGES[page])
        for key in keys.split(",")
    }
    assert cited <= set(LEDGER.bibliography.entries)


def test_every_bibliography_entry_has_a_url():
    for key, entry in LEDGER.bibliography.entries.items():
        assert entry.fields["url"].startswith("https://"), key


def test_every_source_is_described():
    assert {record["source"].split(",")[0] for record in RECORDS} == set(LEDGER.sources)


@pytest.mark.audit  # runs each of them once more
@pytest.mark.timeout(3600)
def test_the_tests_that_settle_claims_pass_and_those_of_pytorch_itself_use_no_simulator():
    named = {word: sorted({one.name for c in LEDGER.claims for one in c.settled if one.word == word}) for word in WORDS}
    for word, options in (("runs", ["-p", "tests.book.no_simulator"]), ("in the model", [])):
        done = run_tests(named[word], *options)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SKIPPED" not in done.stdout, done.stdout


@pytest.mark.audit
def test_a_test_that_uses_a_simulator_does_not_settle_a_claim_about_pytorch_itself():
    settled = [one.name for id in ("C008", "C025", "C029") for one in by_id(id).settled if one.word == "in the model"]
    done = run_tests(settled, "-p", "tests.book.no_simulator")
    assert len(settled) == 3 and " passed" not in done.stdout, done.stdout
    assert done.stdout.count("this is the model") >= 3, done.stdout


def run_tests(names, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--audit", "-p", "no:cacheprovider", *options, *names]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)


def by_id(id):
    (claim,) = [claim for claim in LEDGER.claims if claim.id == id]
    return claim


def test_the_table_shows_quote_verdict_and_answer(monkeypatch):
    monkeypatch.chdir(CHAPTERS / "tensors")
    html = claims_table("tensors/views")._repr_html_()
    for claim in LEDGER.of("tensors/views"):
        assert claim.id in html and f">{claim.verdict}</strong>" in html
    assert html.count("<tr") == 1 + len(LEDGER.of("tensors/views"))
    assert "<code>view</code>" in html and "`" not in html.split("</style>")[1]


@pytest.mark.audit
def test_the_whole_books_table_has_every_claim(monkeypatch):
    monkeypatch.chdir(CHAPTERS)
    assert all(claim.id in claims_table().html for claim in LEDGER.claims)


def test_claims_of_a_draft_wait_unread_until_the_draft_is_named(read, tmp_path):
    toc = {"root": "chapters/index", "parts": [], "meta": {"chapters": {"chapters/tensors/views": 1}}}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    ledger = read(verdict="WRITE(views): one of five")
    assert (ledger.claims, ledger.waiting) == ((), {"C001"})
    with pytest.raises(ValueError, match="C001.*no verdict"):
        Ledger.read(tmp_path / "chapters", "tensors/views")


THERE = "tests/there.py::test_there"
SETTLED = {"runs": THERE, "measured": "evidence/there.json", "published": "here", "in the model": THERE}


@pytest.fixture
def read(tmp_path):
    """Reads a ledger of one claim, C001 with ``changes``, in a repository that holds little."""
    for name, text in (
        ("tests/there.py", "def test_there(): ..."),
        ("evidence/there.json", '{"device": "NVIDIA A", "date": "2026-01-02"}'),
        ("elsewhere.json", "{}"),
        ("chapters/references.bib", "@online{here, title = {Here}, url = {https://example.org}}"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")

    def reader(**changes):
        record = {**RECORDS[0], "settled": [{"runs": THERE}], **changes}
        record = {key: value for key, value in record.items() if value is not None and key != "chapter"}
        for name, data in (("claims.yml", {"sources": LEDGER.sources}), ("tensors/views.claims.yml", [record])):
            (tmp_path / "chapters" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "chapters" / name).write_text(yaml.safe_dump(data), "utf-8")
        return Ledger.read(tmp_path / "chapters")

    return reader


def test_a_claim_is_settled_by_any_of_four_words(read):
    for word, name in {**SETTLED, "published": "launch-a100-stream"}.items():
        (claim,) = read(settled=[{word: name}], open=word == "in the model").claims
        assert [(one.word, one.name) for one in claim.settled] == [(word, name)]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"verdict": "maybe"}, "C001.*no verdict"),
        ({"quote": None}, "C001.*quote"),
        ({"settled": []}, "C001.*nothing settles it"),
        ({"settled": None}, "C001.*nothing settles it"),
        ({"settled": [{"proven": THERE}]}, "C001.*'proven' settles nothing"),
        ({"settled": [{"runs": THERE, "published": "here"}]}, "C001.*one word and one name"),
        ({"settled": ["runs"]}, "C001.*one word and one name"),
        ({"settled": [{"runs": "tests/nowhere.py::test_there"}]}, "C001.*does not exist"),
        ({"settled": [{"runs": "tests/there.py::test_elsewhere"}]}, "C001.*does not exist"),
        ({"settled": [{"runs": "tests/there.py"}]}, "C001.*does not exist"),
        ({"settled": [{"in the model": "tests/there.py::no_test"}], "open": True}, "C001.*does not exist"),
        ({"settled": [{"measured": "evidence/nowhere.json"}]}, "C001.*does not exist"),
        ({"settled": [{"measured": "elsewhere.json"}]}, "C001.*does not exist"),
        ({"settled": [{"published": "nowhere"}]}, "C001.*does not exist"),
        ({"settled": [{"in the model": THERE}]}, "C001.*in the model alone says `open: true`"),
        ({"settled": [{"in the model": THERE}, {"published": "here"}], "open": True}, "C001.*no other claim does"),
        ({"open": True}, "C001.*no other claim does"),
    ],
)
def test_a_claim_that_is_not_whole_is_refused(read, changes, words):
    with pytest.raises(ValueError, match=words):
        read(**changes)


def test_the_table_says_how_each_claim_is_settled(read):
    settled = [{word: name} for word, name in SETTLED.items()] + [{"published": "launch-a100-stream"}]
    ledger = read(settled=settled)
    cells = render(ledger.claims, ledger).html
    for said in (
        "<b>Runs:</b>",
        "<b>Measured:</b> on NVIDIA A, 2026-01-02 (<code>evidence/there.json",
        "<b>In the model:</b>",
    ):
        assert said in cells
    assert '<b>Published:</b> <a href="https://example.org">Here</a>' in cells
    figure = published("launch-a100-stream")
    assert f"{figure.value:g} {figure.unit}, {figure.card}" in cells and figure.source.url in cells
    assert OPEN not in cells


def test_the_table_says_what_only_the_model_says(read):
    ledger = read(settled=[{"in the model": THERE}], open=True)
    assert OPEN in render(ledger.claims, ledger).html


def test_a_chapter_without_claims_is_an_error():
    with pytest.raises(KeyError, match="no claims beside the chapter"):
        LEDGER.of("tensors/nowhere")


def test_a_page_outside_the_repository_is_told_so(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="copy of the course's repository"):
        claims_table()


def test_markup_in_a_claim_is_text():
    settled = (Settlement("published", "pytorch-tensor-view"),)
    claim = Claim("C999", "x", "S0, 1", "<b>`<i>`</b>", "wrong", "<script>", settled)
    html = render([claim], LEDGER).html
    assert "<script>" not in html and "<code>&lt;i&gt;</code>" in html


def test_every_claim_of_the_notes_is_in_the_ledger():
    assert {f"C{number:03d}" for number in range(1, 189)} <= {record["id"] for record in RECORDS}
