"""A chapter that is not in the parts of _toc.yml is a draft: its files may lie in every room, and nobody takes them up."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import grimp
import pytest
import yaml

from autograder.authoring.check import chosen
from autograder.authoring.drafts import FILES, ROOMS, Drafts, in_the_book, written
from gpulab.book.contents import Contents, in_words
from tests.conftest import pytest_ignore_collect
from tests.rooms import ROOT, TESTS, is_draft, is_draft_file, pages

VIEWS, LATER = "chapters/tensors/views", "chapters/serving/later"
CELL = '# %% nbgrader={"grade": true, "grade_id": "FUNCTION_hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}\n'
HIDDEN = '### BEGIN HIDDEN TESTS\nimport autograder; autograder.grade("CHAPTER.FUNCTION")\n### END HIDDEN TESTS\n'


def write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")


@pytest.fixture
def book(tmp_path) -> Path:
    """Of two chapters, ``views`` and the draft ``later``, each with an exercise; three widgets."""
    toc = {
        "root": "chapters/index",
        "parts": [{"chapters": [{"file": VIEWS}]}],
        "meta": {"chapters": {VIEWS: 1, LATER: 9}},
    }
    write(
        tmp_path,
        {
            "_toc.yml": yaml.safe_dump(toc),
            f"{VIEWS}.md": "StrideExplorer(",
            f"{LATER}.md": "Quiz( GangScheduler(",
            "chapters/index.md": "Quiz(",
        },
    )
    for chapter in ("views", "later"):
        text = (CELL + HIDDEN).replace("FUNCTION", "first").replace("CHAPTER", chapter)
        write(tmp_path, {f"exercises/{chapter}/notebook.py": text, f"exercises/{chapter}/corpus.txt": ""})
    write(
        tmp_path, {f"gpulab/widgets/{name}/__init__.py": "" for name in ("quiz", "gang_scheduler", "stride_explorer")}
    )
    return tmp_path


def test_a_file_belongs_to_the_chapter_whose_name_it_bears_and_a_widget_to_the_pages_that_show_it(book):
    drafts = Drafts(book)
    for path in (
        "exercises/later",
        "exercises/later/first/judge.py",
        f"{LATER}.md",
        "tests/book/test_claims_later.py",
    ):
        assert drafts.alone_need(path) and not drafts.alone_need(
            path.replace("later", "views").replace("serving", "tensors")
        ), path
    assert [drafts.alone_need(f"gpulab/widgets/{name}") for name in ("gang_scheduler", "stride_explorer", "quiz")] == [
        True,
        False,
        False,
    ]


def test_the_pipeline_takes_the_chapters_of_the_book_and_all_where_there_is_none(book):
    assert in_the_book(book / "exercises") == ["views"] and written(book / "exercises") == ["later", "views"]
    (book / "_toc.yml").unlink()
    assert in_the_book(book / "exercises") == ["later", "views"]
    assert not Drafts(book).alone_need("exercises/later")


def test_check_and_mutate_take_a_draft_when_it_is_named_and_not_otherwise(book):
    names = lambda asked: [authored.name for authored in chosen(book / "exercises", asked)[0]]
    assert names([]) == ["views.first"] and names(["later"]) == ["later.first"]
    (book / "exercises/later/corpus.txt").write_text("def unfinished(:\n")
    assert chosen(book / "exercises", [])[1] == {} and "later" in chosen(book / "exercises", ["later"])[1]


def test_a_page_of_a_draft_is_no_part_of_the_site(book, extensions, monkeypatch):
    drafts, numbers = extensions("drafts"), extensions("chapter_numbers")
    monkeypatch.setattr(drafts, "ROOT", book)
    monkeypatch.setattr(numbers, "ROOT", book)
    config = SimpleNamespace(exclude_patterns=[".*"])
    drafts.leave_out(None, config)
    assert config.exclude_patterns == [".*", f"{LATER}.md"] and numbers.numbers() == {VIEWS: 1}


def test_a_page_without_a_number_can_be_a_draft_too(book):
    toc = yaml.safe_load((book / "_toc.yml").read_text())
    toc["meta"]["unnumbered"] = ["chapters/serving/desk"]
    write(book, {"_toc.yml": yaml.safe_dump(toc), "chapters/serving/desk.md": "Quiz("})
    assert Drafts(book).alone_need("chapters/serving/desk.md") and not Drafts(book).alone_need(f"{VIEWS}.md")
    assert Contents.read(book).drafts == {"later": 9} and Contents.read(book).draft_pages == (
        LATER,
        "chapters/serving/desk",
    )


@pytest.fixture
def extensions(monkeypatch):
    """extensions(name): the local Sphinx extension."""
    monkeypatch.syspath_prepend(str(ROOT / "chapters" / "_extensions"))
    return __import__


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], "planned"),
        ([1], "chapter 1"),
        ([6, 5], "chapters 5 and 6"),
        ([3, 4, 7], "chapters 3, 4 and 7"),
        ([8, 9, 10, 13], "chapters 8 to 10 and 13"),
    ],
)
def test_numbers_of_chapters_are_said_in_words(numbers, words):
    assert in_words(numbers) == words


def test_the_landing_page_says_what_is_here_and_what_is_planned(extensions):
    landing = extensions("landing")
    numbers = {VIEWS: 1, "chapters/tensors/autograd": 2, LATER: 3}
    contents = Contents(("chapters/index", VIEWS), numbers, {"Part I: Tensors": 1, "Part II: Serving": 3})
    drawn = landing.arc('<li data-chapters="views autograd">\n</li><li data-chapters="later">\n</li>', contents)
    assert drawn == '<li class="here">\n<p class="state">chapter 1</p>\n</li><li>\n<p class="state">planned</p>\n</li>'
    topics = {"views": "strides", "autograd": "gradients", "later": "tokens"}
    assert landing.table(topics, contents)[2:] == [
        "| I. Tensors | 1 | strides; *planned:* gradients |",
        "| II. Serving | planned | tokens |",
    ]
    whole = Contents(("chapters/index", *numbers), numbers, contents.parts)
    assert landing.table(topics, whole)[2:] == [
        "| I. Tensors | 1 and 2 | strides; gradients |",
        "| II. Serving | 3 | tokens |",
    ]
    with pytest.raises(KeyError, match="views"):
        landing.table({}, contents)


def test_every_chapter_has_its_station_and_its_topic(extensions):
    landing, known = extensions("landing"), {Path(page).name for page in Contents.read(ROOT).numbers}
    stations = [name for names in landing.STATION.findall(landing.ARC.read_text("utf-8")) for name in names[0].split()]
    topics = (ROOT / "chapters/index.md").read_text("utf-8").partition("```{parts}\n")[2].partition("```")[0]
    assert sorted(stations) == sorted(known) == sorted(line.partition(":")[0] for line in topics.splitlines())


def test_the_parts_of_the_book_are_among_those_of_the_course():
    toc, parts = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8")), Contents.read(ROOT).parts
    for part in (part for part in toc["parts"] if part.get("numbered")):
        pages = [entry["file"] for entry in part["chapters"] if entry["file"] not in toc["meta"]["unnumbered"]]
        numbers = [toc["meta"]["chapters"][page] for page in pages]
        assert {list(parts)[Contents.read(ROOT).part_of(number) - 1] for number in numbers} == {part["caption"]}


# Of this repository.


def test_what_chapters_alone_need_is_imported_by_nothing_else():
    """So the wheels can be imported whichever chapters are drafts."""
    graph, drafts, others = grimp.build_graph("gpulab", "autograder"), Drafts(ROOT), []
    for module in graph.modules:
        if owners := drafts.owners(path_of(module)):
            importers = graph.find_modules_that_directly_import(module)
            others += [
                (one, module) for one in importers if not (own := drafts.owners(path_of(one))) or not own <= owners
            ]
    assert others == []


def path_of(module: str) -> str:
    path = Path(*module.split("."))
    return path.as_posix() if (ROOT / path).is_dir() else f"{path.as_posix()}.py"


def test_what_is_named_as_some_chapters_alone_is_there_and_so_are_the_chapters():
    assert [path for path in FILES if not (ROOT / path).exists()] == []
    assert [room for room in ROOMS if not any((ROOT / top / room).is_dir() for top in ("gpulab", "tests"))] == []
    assert {chapter for chapters in (*ROOMS.values(), *FILES.values()) for chapter in chapters} <= {
        *pages(),
        *(Path(page).name for page in Contents.read(ROOT).unnumbered),
    }


def test_tests_of_drafts_are_left_alone_until_their_chapter_or_their_room_is_asked_for(monkeypatch):
    monkeypatch.setattr(
        "tests.rooms.DRAFTS",
        SimpleNamespace(
            contents=SimpleNamespace(draft_names=frozenset({"engines"})),
            owners=Drafts(ROOT).owners,
            alone_need=lambda path: Drafts(ROOT).owners(path) == {"engines"},
        ),
    )
    claims, live = TESTS / "book/test_claims_engines.py", TESTS / "book/test_claims_views.py"
    assert (
        is_draft_file(claims)
        and is_draft_file(claims, "views")
        and not is_draft_file(claims, "engines")
        and not is_draft_file(live)
    )
    item = lambda *authored_exercises: SimpleNamespace(
        callspec=SimpleNamespace(
            params={"authored": SimpleNamespace(name=f"{name}.any") for name in authored_exercises}
        )
    )
    assert (
        is_draft(item("engines"))
        and not is_draft(item("engines"), "engines")
        and not is_draft(item("views"))
        and not is_draft(item())
    )


def test_make_test_collects_no_draft(request):
    """What this very run has collected, where that is all; else what another one does."""
    of_this = " ".join(item.nodeid for item in request.session.items)
    every = of_this if "test_claims_views.py" in of_this else collected()
    assert "test_claims_views.py" in every
    assert [
        name for name in Contents.read(ROOT).drafts if f"test_claims_{name}.py" in every or f"[{name}]" in every
    ] == []


def test_make_test_imports_no_file_of_an_audit_and_make_audit_does():
    file = TESTS / "cuda/audit_opinfo.py"
    asked = [SimpleNamespace(option=SimpleNamespace(chapter=None, room=None, audit=audit)) for audit in (False, True)]
    assert file.is_file() and [bool(pytest_ignore_collect(file, config)) for config in asked] == [True, False]


@pytest.mark.audit
def test_a_draft_alone_is_collected_when_it_is_asked_for():
    for draft in Contents.read(ROOT).drafts:
        one = collected("--chapter", draft)
        assert f"test_claims_{draft}.py" in one and "test_claims_views.py" not in one


def collected(*options: str) -> str:
    """What pytest collects of the tests of claims and of the book's pages."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, "tests/book"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300).stdout
