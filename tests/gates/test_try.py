"""``python -m autograder try``: what solutions in a file lose, and where that is not what they declare."""

import json

import pytest

from autograder.authoring import isolated
from autograder.authoring.tried import run
from autograder.core.layout import ROOT
from autograder.misconceptions.corpus import read_corpus

SOLUTIONS = """\
# %% wrong fits says_yes loses=MANY
def fits(*asked):
    return True

# %% wrong fits sleeps
import time
def fits(*asked):
    time.sleep(3600)

# %% right fits says_nothing
def fits(*asked):
    pass
"""


@pytest.fixture
def tried(tmp_path, capsys):
    def runner(text: str, name: str = "memory.py", **options) -> tuple[int, str, str]:
        (tmp_path / name).write_text(text)
        given = {"chapter": "", "function": "", "seeds": None, "jobs": 2, "as_json": False} | options
        code = run(tmp_path / name, ROOT / "exercises", **given)
        said = capsys.readouterr()
        return code, said.out, said.err

    return runner


@pytest.fixture(scope="module")
def every_criterion() -> str:
    from autograder.core.exercise import find

    return ",".join(criterion.name for criterion in find("memory.fits").criteria)


def test_a_solution_that_loses_what_it_declares_is_as_declared(tried, every_criterion):
    code, said, _ = tried(SOLUTIONS.partition("# %% wrong fits sleeps")[0].replace("MANY", every_criterion))
    assert code == 0 and said.endswith("1 attempt, 0 not as declared\n")
    assert all(f"    {name}: " in said for name in every_criterion.split(",")), "a sentence for each criterion"


def test_a_cheat_is_to_lose_every_criterion(tried, every_criterion):
    code, said, _ = tried("# %% cheat fits says_yes\ndef fits(*asked):\n    return True\n")
    assert code == 0 and said.startswith("cheat fits says_yes: loses ")
    corpus = read_corpus(ROOT / "exercises" / "memory" / "corpus.txt")
    right = next(attempt.source for attempt in corpus if attempt.function == "fits" and attempt.kind == "right")
    code, said, _ = tried(f"# %% cheat fits computes\n{right}", seeds=[1])
    assert code == 1 and "cheat fits computes: loses nothing" in said and "    errors: declared, and kept" in said


def test_what_is_declared_and_kept_is_named_and_so_is_what_is_lost_besides(tried, every_criterion):
    first, *others = every_criterion.split(",")
    alternative = SOLUTIONS[SOLUTIONS.index("# %% right") :].replace("    pass", "    return True")
    right = (ROOT / "exercises" / "memory" / "notebook.py").read_text()
    code, said, _ = tried(alternative)
    assert code == 1 and f"{first} NOT DECLARED: " in said and "right fits says_nothing" in said
    start = right.index("def fits(")
    solution = right[start : right.index("### END SOLUTION", start)].replace("### BEGIN SOLUTION", "")
    code, said, _ = tried(f"# %% wrong fits is_right loses={first}\n{solution}")
    assert code == 1 and f"    {first}: declared, and kept\n" in said


def test_json_has_a_line_for_each_solution_and_one_that_sleeps_is_stopped(tried, monkeypatch, every_criterion):
    monkeypatch.setattr(isolated, "CPU_SECONDS", 1.0)
    monkeypatch.setattr(isolated, "CLOCK_TIMES_CPU", 1)
    code, said, _ = tried(SOLUTIONS.replace("MANY", every_criterion), as_json=True, seeds=[3])
    says_yes, sleeps, says_nothing = map(json.loads, said.splitlines())
    assert code == 1 and says_yes["missing"] == says_yes["unexpected"] == [] and says_yes["wrong"]
    assert set(sleeps["lost"]["3"].values()) == {isolated.STOPPED} and not sleeps["problem"]
    assert says_nothing["unexpected"] == sorted(every_criterion.split(","))


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (SOLUTIONS.replace("MANY", "speed"), {}, "fits says_yes is to lose speed; the criteria are "),
        ("# %% right fit one\nfit = 1\n", {}, "memory grades no fit; it grades "),
        (SOLUTIONS, {"function": "state_bytes"}, "the file holds no attempt of state_bytes"),
        (SOLUTIONS, {"chapter": "none_such"}, "no chapter 'none_such'"),
        (SOLUTIONS, {"name": "strangers.py"}, "no chapter 'strangers' in "),
        ("# nothing\n", {}, "no attempt in the file"),
    ],
)
def test_a_file_that_names_what_is_not_there_is_refused_in_a_sentence(tried, text, options, says):
    code, said, refused = tried(text, **options)
    assert code == 2 and said == "" and says in refused and refused.startswith("autograder try: ")
