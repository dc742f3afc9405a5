"""``python -m autograder new``: a chapter's or an exercise's files, with what is to be written marked.

A new chapter is a draft: it has a number in ``_toc.yml`` and gets its place there once it is written.
"""

import json
import keyword
import re
from pathlib import Path
from string import Template

from autograder.core.layout import NOTEBOOK
from autograder.misconceptions.corpus import CORPUS
from autograder.misconceptions.sentences import MISCONCEPTIONS

TEMPLATES = Path(__file__).parent / "templates"


class Refused(ValueError):
    """Nothing was written; says why."""


def new_chapter(root: Path, name: str, part: str, number: int | None, title: str) -> list[Path]:
    """Write the files of chapter ``name``; returns them. Raises Refused before anything is written.

    ``part``: a folder of ``chapters/``. ``number``: the chapter's in the curriculum, which its exercises carry.
    """
    _require_name(name)
    _require_name(part)
    if list((root / "chapters").glob(f"*/{name}.md")) or (root / "exercises" / name).exists():
        raise Refused(f"there is a chapter {name!r} already")
    claim = _next_claim(root)
    words = {"chapter": name, "part": part, "title": title or name.replace("_", " ").capitalize(), "claim": claim}
    number = number or _next_number(root)
    words |= {
        "claim_in_words": f"claim_{int(claim[1:])}",
        "number": str(number),
        "quoted_title": json.dumps(words["title"], ensure_ascii=False),
    }
    made = {
        f"chapters/{part}/{name}.md": _filled("page.md", words),
        f"exercises/{name}/{NOTEBOOK}": _filled("notebook.txt", words),
        f"exercises/{name}/{CORPUS}": _filled("corpus.txt", words),
        f"exercises/{name}/hints.yml": _filled("hints.yml", words),
        f"tests/book/test_claims_{name}.py": _filled("claims_test.txt", words),
        f"chapters/{part}/{name}.claims.yml": _filled("claims.yml", words),
        "_toc.yml": _with_number(_read(root, "_toc.yml"), f"chapters/{part}/{name}", number),
    }
    return _write(root, made)


def new_exercise(root: Path, name: str, takes: str, answers: bool = False) -> list[Path]:
    """Add exercise ``<chapter>.<function>`` to its chapter's files; returns them. Raises Refused before anything is written.

    ``answers``: only what the function returns is judged, not what it does.
    """
    chapter, _, function = name.partition(".")
    _require_name(chapter)
    _require_name(function)
    notebook, folder = f"exercises/{chapter}/{NOTEBOOK}", f"exercises/{chapter}/{function}"
    if not (root / notebook).exists():
        raise Refused(f"no chapter {chapter!r}: python -m autograder new chapter {chapter}")
    if function == chapter or f'"grade_id": "{function}"' in _read(root, notebook):
        raise Refused(
            f"{notebook} has a cell {function!r} already"
            if function != chapter
            else "an exercise is not called as its chapter"
        )
    words = {"chapter": chapter, "function": function, "takes": takes, "number": _next_exercise(root, notebook)}
    made = {
        notebook: _longer(root, notebook, "exercise_cells.txt", words),
        f"exercises/{chapter}/{CORPUS}": _longer(root, f"exercises/{chapter}/{CORPUS}", "attempts.txt", words),
        f"exercises/{chapter}/hints.yml": _longer(root, f"exercises/{chapter}/hints.yml", "hint.yml", words),
        f"{folder}/{MISCONCEPTIONS}": _filled("misconceptions.yml", words),
        f"{folder}/judge.py": _filled("answers.txt" if answers else "judge.txt", words),
    }
    if not answers:
        made[f"{folder}/run.py"] = _filled("run.txt", words)
    if taken := [name for name in (folder, f"{folder}.py") if (root / name).exists()]:
        raise Refused(f"{taken[0]} is there already")
    return _write(root, made)


def _require_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise Refused(f"{name!r} is no name: small letters, digits and _ are, as in moving_bytes")


def _filled(template: str, words: dict[str, str]) -> str:
    return Template((TEMPLATES / template).read_text("utf-8")).substitute(words)


def _read(root: Path, name: str) -> str:
    try:
        return (root / name).read_text("utf-8")
    except FileNotFoundError:
        raise Refused(f"{name} is missing") from None


def _longer(root: Path, name: str, template: str, words: dict[str, str]) -> str:
    return _read(root, name).rstrip("\n") + "\n" + _filled(template, words)


def _write(root: Path, made: dict[str, str]) -> list[Path]:
    for name, text in made.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return [Path(name) for name in made]


def _next_claim(root: Path) -> str:
    texts = (path.read_text("utf-8") for path in (root / "chapters").glob("*/*.claims.yml"))
    taken = (int(number) for text in texts for number in re.findall(r"^- id: C(\d+)$", text, flags=re.M))
    return f"C{max(taken, default=0) + 1:03}"


def _next_number(root: Path) -> int:
    """One more than the largest chapter's number that an exercise carries."""
    texts = (path.read_text("utf-8") for path in (root / "exercises").glob(f"*/{NOTEBOOK}"))
    return max((int(number) for text in texts for number in re.findall(r"\bE(\d+)\.\d", text)), default=0) + 1


def _next_exercise(root: Path, notebook: str) -> str:
    """``9.2`` where the notebook's one exercise is E9.1."""
    text = _read(root, notebook)
    carried = re.findall(r"\bE(\d+)\.\d", text)
    count = len(re.findall(r"^# ## E\d+\.\d+", text, flags=re.M))
    return f"{carried[0] if carried else _next_number(root)}.{count + 1}"


def _with_number(toc: str, page: str, number: int) -> str:
    """With the page's number behind those of ``meta: chapters:``."""
    given = list(re.finditer(r"^    (chapters/\S+): (\d+)\n", toc, flags=re.M))
    if taken := [match[1] for match in given if int(match[2]) == number]:
        raise Refused(f"chapter {number} is {taken[0]}: give another --number")
    return toc[: given[-1].end()] + f"    {page}: {number}\n" + toc[given[-1].end() :]
