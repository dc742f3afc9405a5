"""The ledger, the chapters, the tests and the bibliography agree with each other."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpulab.book import Claim, Ledger, claims_table

ROOT = Path(__file__).parents[2]
CHAPTERS = ROOT / "chapters"
LEDGER = Ledger.read(CHAPTERS)
PAGES = {p.relative_to(CHAPTERS).with_suffix("").as_posix(): p.read_text("utf-8") for p in CHAPTERS.rglob("*.md")}


def test_ids_are_unique_and_well_formed():
    ids = [claim.id for claim in LEDGER.claims]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"C\d{3}", id) for id in ids)


def test_every_chapter_of_the_ledger_is_a_page_that_shows_its_claims():
    for chapter in {claim.chapter for claim in LEDGER.claims}:
        assert f'claims_table("{chapter}")' in PAGES[chapter]


def test_a_page_shows_no_claims_but_its_own():
    for page, text in PAGES.items():
        for named in re.findall(r'claims_table\("([^"]+)"\)', text):
            assert named == page and LEDGER.of(named)


def test_every_claim_that_a_page_names_is_in_the_ledger():
    known = {claim.id: claim.chapter for claim in LEDGER.claims}
    for page, text in PAGES.items():
        for id in re.findall(r"\bC\d{3}\b", text):
            assert id in known, f"{page} names {id}, which claims.yml does not have"


def test_every_citation_is_in_the_bibliography():
    keys = set(LEDGER.bibliography.entries)
    for claim in LEDGER.claims:
        assert claim.cite is None or claim.cite in keys, f"{claim.id} cites {claim.cite}"
    for page, text in PAGES.items():
        cited = {key.strip() for keys in re.findall(r"\{(?:foot)?cite(?::\w+)?\}`([^`]+)`", text) for key in keys.split(",")}
        assert cited <= keys, f"{page} cites {sorted(cited - keys)}, which references.bib lacks"


def test_every_bibliography_entry_has_a_url():
    for key, entry in LEDGER.bibliography.entries.items():
        assert entry.fields["url"].startswith("https://"), key


def test_every_source_is_described():
    assert {claim.source.split(",")[0] for claim in LEDGER.claims} == set(LEDGER.sources)


def test_every_named_test_is_a_function():
    for claim in filter(lambda claim: claim.test, LEDGER.claims):
        path, name = claim.test.split("::")
        functions = {n.name for n in ast.parse((ROOT / path).read_text("utf-8")).body if isinstance(n, ast.FunctionDef)}
        assert name in functions, f"{claim.id} is settled by {claim.test}, which does not exist"


def test_every_named_test_runs_and_passes():
    named = sorted({claim.test for claim in LEDGER.claims if claim.test})
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *named]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout, done.stdout


def test_the_table_shows_quote_verdict_and_answer(monkeypatch):
    monkeypatch.chdir(CHAPTERS / "tensors")
    html = claims_table("tensors/views")._repr_html_()
    for claim in LEDGER.of("tensors/views"):
        assert claim.id in html and f">{claim.verdict}</strong>" in html
    assert html.count("<tr") == 1 + len(LEDGER.of("tensors/views"))
    assert "<code>view</code>" in html and "`" not in html.split("</style>")[1]


def test_the_whole_books_table_has_every_claim(monkeypatch):
    monkeypatch.chdir(CHAPTERS)
    assert all(claim.id in claims_table().html for claim in LEDGER.claims)


@pytest.mark.parametrize(
    "change, words",
    [({"verdict": "maybe"}, "no verdict"), ({"settled": {}}, "nothing settles it"), ({"quote": None}, None)],
)
def test_a_claim_that_is_not_whole_is_refused(tmp_path, change, words):
    record = {**yaml.safe_load((CHAPTERS / "claims.yml").read_text("utf-8"))["claims"][0], **change}
    if words is None:
        del record["quote"]
    (tmp_path / "references.bib").write_text("", "utf-8")
    (tmp_path / "claims.yml").write_text(yaml.safe_dump({"sources": {}, "claims": [record]}), "utf-8")
    with pytest.raises(ValueError, match=words or "C001.*quote"):
        Ledger.read(tmp_path)


def test_a_chapter_without_claims_is_an_error():
    with pytest.raises(KeyError, match="no claim in claims.yml"):
        LEDGER.of("tensors/nowhere")


def test_a_page_outside_the_repository_is_told_so(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="copy of the course's repository"):
        claims_table()


def test_markup_in_a_claim_is_text():
    claim = Claim("C999", "x", "S0, 1", "<b>`<i>`</b>", "wrong", "<script>", cite="pytorch-tensor-view")
    from gpulab.book.table import render

    html = render([claim], LEDGER).html
    assert "<script>" not in html and "<code>&lt;i&gt;</code>" in html
