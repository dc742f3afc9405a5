"""From nothing to an exercise that passes every gate, as CONTRIBUTING says it."""

import inspect
import re
import shlex
from pathlib import Path

import pytest
import yaml

from autograder.authoring.todos import rooms
from autograder.core import exercise
from autograder.core.sampler import Sampler
from autograder.judge import expect, questions
from gpulab.book.claims import records
from gpulab.book.contents import Contents
from tests.project.project_copy import CONTRIBUTING, ROOT, Copy

NEW_CHAPTER, NEW_EXERCISE = re.findall(r"^python -m autograder (new .*?)\s+#", CONTRIBUTING, flags=re.M)
LAST_ROWS = (ROOT / "tests" / "project" / "last_rows.md").read_text("utf-8")
SIGNATURE = re.compile(r"`(\w+)\(([^)`]*)\)`")


def copy_with(folder: Path, *commands: str) -> Copy:
    copy = Copy(folder)
    for command in commands:
        done = copy.autograder(*shlex.split(command))
        assert done.returncode == 0, done.stderr
    return copy


@pytest.fixture(scope="module")
def new(tmp_path_factory) -> Copy:
    """A copy with the chapter of CONTRIBUTING and an exercise whose run watches, nothing written yet."""
    return copy_with(tmp_path_factory.mktemp("author"), NEW_CHAPTER, 'new exercise rows.last_rows --takes "x, n"')


@pytest.fixture(scope="module")
def checked(new) -> str:
    return new.autograder("check", "rows").stdout


def test_every_room_has_its_file_and_a_mark_in_it(new, checked):
    named = {path.relative_to(ROOT).as_posix() for path in rooms(ROOT / "exercises", "rows")} - {"_toc.yml"}
    named -= {"chapters/<part>/rows.md"}
    own = {"exercises/rows/last_rows/run.py", "exercises/rows/last_rows/judge.py", "chapters/tensors/rows.md"}
    for name in named | own:
        assert re.search(rf"^  {name}:\d+: write ", checked, flags=re.M), name


def test_what_is_to_be_written_is_said_once_by_file_and_line(checked):
    assert "exercises/rows/notebook.py:44: write the solution\n" in checked
    lines = [line for line in checked.split("\n") if line.startswith("  ")]
    assert len(lines) == len(set(lines)) > 25
    assert all(re.search(r"^  \S+:\d+: write ", line) for line in lines), checked


def test_an_exercise_of_questions_has_no_run_and_says_what_is_to_be_written(tmp_path):
    copy = Copy(tmp_path)
    assert copy.autograder("new", "chapter", "waits", "--number", "30").returncode == 0
    done = copy.autograder("new", "exercise", "waits.first_wait", "--answers")
    assert done.returncode == 0 and not (copy.folder / "exercises/waits/first_wait/run.py").exists(), done.stderr
    said = copy.autograder("check", "waits").stdout
    assert "exercises/waits/first_wait/judge.py:" in said and "what the function is called with, in order" in said


def test_a_new_chapter_is_a_draft(new):
    assert Contents.read(new.folder).drafts["rows"] == 23


def test_its_claim_has_a_number_of_its_own(new):
    claims = records(new.folder / "chapters")
    assert [claim["id"] for claim in claims if claim["chapter"] == "tensors/rows"] == ["C007"]
    assert len({claim["id"] for claim in claims}) == len(claims)


@pytest.mark.audit
def test_its_tests_fail_until_they_are_written(new):
    (new.folder / "tests" / "__init__.py").touch()
    done = new.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert "1 failed" in done.stdout and "WRITE(rows)" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chapter", "rows"], "there is a chapter 'rows' already"),
        (["chapter", "Rows"], "'Rows' is no name"),
        (
            ["chapter", "columns", "--part", "tensors", "--number", "1"],
            "chapter 1 is chapters/tensors/views: give another --number",
        ),
        (["exercise", "rows.last_rows"], "has a cell 'last_rows' already"),
        (["exercise", "rows.class"], "'class' is no name"),
        (["exercise", "none_such.first"], "no chapter 'none_such': python -m autograder new chapter none_such"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_sentence_and_writes_nothing(new, arguments, says):
    before = {path: path.read_bytes() for path in new.folder.rglob("*.[pmy]*") if path.is_file()}
    done = new.autograder("new", *arguments)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    assert before == {path: path.read_bytes() for path in before} and not (new.folder / "exercises/none_such").exists()


def test_a_title_may_hold_what_yaml_reads_as_its_own(tmp_path):
    copy = Copy(tmp_path)
    title = 'Waits: who, for what? "Why"'
    assert copy.autograder("new", "chapter", "waits", "--number", "30", "--title", title).returncode == 0
    assert yaml.safe_load((copy.folder / "exercises/waits/hints.yml").read_text())["title"] == title


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> Copy:
    """The exercise of CONTRIBUTING. The page and its claim are left as they are."""
    copy = copy_with(tmp_path_factory.mktemp("shown"), NEW_CHAPTER, NEW_EXERCISE)
    copy.write_what_is_shown(CONTRIBUTING, "place_of", blocks=5)
    return copy


def test_the_exercise_of_contributing_passes_every_gate(shown):
    done = shown.autograder("check", "--keep", "rows.place_of")
    assert done.stdout.startswith("rows.place_of: nothing wrong"), done.stdout + done.stderr


def test_the_attempts_of_contributing_lose_what_they_declare(shown):
    done = shown.autograder("try", "exercises/rows/corpus.txt", "--jobs", "1")
    assert done.returncode == 0 and "4 attempts, 0 not as declared" in done.stdout, done.stdout + done.stderr


@pytest.mark.audit
def test_every_mutant_of_the_solution_of_contributing_loses(shown):
    done = shown.autograder("mutate", "rows", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(new, checked) -> Copy:
    new.write_what_is_shown(LAST_ROWS, "last_rows", blocks=6)
    return new


@pytest.fixture(scope="module")
def kept(written) -> str:
    done = written.autograder("check", "--keep", "rows.last_rows")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_exercise_whose_run_watches_passes_every_gate(kept):
    assert kept.startswith("rows.last_rows: nothing wrong") and "left to do: its mutants were not tried" in kept


def test_the_attempts_of_the_corpus_lose_what_they_declare(written, kept):
    done = written.autograder("try", "exercises/rows/corpus.txt", "--jobs", "1")
    assert done.returncode == 0 and "9 attempts, 0 not as declared" in done.stdout, done.stdout + done.stderr


@pytest.mark.audit
def test_every_mutant_of_its_solution_loses(written, kept):
    done = written.autograder("mutate", "rows", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr


JUDGE, RUN, MISCONCEPTIONS, CORPUS = (
    "exercises/rows/last_rows/judge.py",
    "exercises/rows/last_rows/run.py",
    "exercises/rows/last_rows/misconceptions.yml",
    "exercises/rows/corpus.txt",
)
SLIPS = {
    (
        JUDGE,
        'evidence["rows"]',
        'evidence["row"]',
    ): "the judge of rows.last_rows failed at exercises/rows/last_rows/judge.py:27 (KeyError: 'row')",
    (
        JUDGE,
        "sampler.shuffled(-1,",
        "sampler.every(-1,",
    ): "its cases failed at exercises/rows/last_rows/judge.py:18 (AttributeError: 'Sampler' object",
    (
        JUDGE,
        "exercise = Exercise(",
        "last_rows = Exercise(",
    ): "exercises/rows/last_rows/judge.py binds no Exercise to the name `exercise`",
    (
        RUN,
        'case["n"]',
        'case["m"]',
    ): "the scenario of rows.last_rows failed at exercises/rows/last_rows/run.py:12 (KeyError: 'm')",
    (
        RUN,
        "def run",
        "def runs",
    ): "exercises/rows/last_rows/run.py defines no function run(learner, case)",
    (RUN, "observe() as seen:", "observe() as seen"): "exercises/rows/last_rows/run.py:11: SyntaxError: expected ':'",
    (CORPUS, "return x[-n:]", "return x[-n:"): "exercises/rows/corpus.txt:8: SyntaxError: '[' was never closed",
    (
        CORPUS,
        "# %% right last_rows narrowed\ndef last_rows",
        "# %% right last_row narrowed\ndef last_row",
    ): "narrowed is an attempt at 'last_row', which the notebook does not grade",
    (CORPUS, "copied loses=no_copy ", "copied loses=copies "): "copied is to lose copies: rows.last_rows has no such",
    (CORPUS, "copied loses=no_copy ", "copied "): "copied does not say what it loses: write loses=a,b at its head",
    (CORPUS, "wrong last_rows copied", "wrong last_rows unchecked"): "last_rows has an attempt unchecked already",
    (CORPUS, "breaks=c4", "breaks=c4,c6"): "copied names the clause [c6]: the statement has none",
    (CORPUS, "breaks=c5", "breaks=c5 says=unseen"): "unchecked says unseen: misconceptions.yml names no such",
    (
        MISCONCEPTIONS,
        "    name: minus zero\n",
        "    name: minus zero\n    name: zero\n",
    ): "exercises/rows/last_rows/misconceptions.yml:4: name stands twice",
}


@pytest.fixture(scope="module")
def said(written, kept) -> dict:
    return written.checked_after("rows.last_rows", SLIPS)


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: " ".join(slip))
def test_a_slip_of_the_authors_is_said_in_one_sentence_with_its_place(said, slip):
    problems = [line for line in said[slip].split("\n") if line.startswith("  ")]
    assert len(problems) == 1 and SLIPS[slip] in problems[0], said[slip]
    assert "autograder/" not in problems[0], "the line that is at fault is the author's"


def signatures() -> list[tuple[str, str]]:
    tables = CONTRIBUTING[CONTRIBUTING.index("| in `judge.py` | is |") : CONTRIBUTING.index("### One whole exercise")]
    first_columns = re.sub(r"^(\| [^|]*\|).*$", r"\1", tables, flags=re.M)
    return SIGNATURE.findall(first_columns)


@pytest.mark.parametrize(("name", "takes"), signatures(), ids=lambda text: text)
def test_a_signature_that_contributing_shows_is_the_real_one(name, takes):
    found = next(getattr(room, name) for room in (exercise, expect, questions, Sampler) if hasattr(room, name))
    real = [parameter for parameter in inspect.signature(found).parameters if parameter != "self"]
    assert [word.lstrip("*") for word in takes.split(", ")] == real


def test_contributing_shows_all_of_what_an_author_calls():
    shown = {name for name, _ in signatures()}
    drawn = {name for name in vars(Sampler) if not name.startswith("_")}
    assert shown >= drawn | {
        "Case", "Criterion", "Exercise", "Failure", "NotGradable", "answers", "ask",
    }  # fmt: skip
