"""Which solutions a release ships: of a course whose points count it is to ship none.

A release is searched for code like that of :mod:`~autograder.grading.similar`: names, numbers and comments do not count.
"""

import html
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder.core.hidden_region import BEGIN_SOLUTION, END_SOLUTION
from autograder.grading.similar import stretches_of
from autograder.selfcheck.chapters import Chapter

LEAST = 0.75
"""Part of a solution's stretches, beyond those of its released notebook. The pages' own lessons share two thirds with some."""
_HIDDEN = re.compile(r"(^|/)(judge\.py|hints\.yml|corpus\.txt|misconceptions\.yml|trials\.json)$|^exercises/.*\.py$")
"""Names of files that learners of a graded course do not get."""
_SOLUTION = re.compile(f"{BEGIN_SOLUTION}.*?{END_SOLUTION}", re.S)
_SHOWN = re.compile(r"<pre[^>]*>(.*?)</pre>", re.S)
_FENCED = re.compile(r"^(`{3,})[^\n]*\n(.*?)^\1", re.S | re.M)


@dataclass(frozen=True)
class Shipped:
    """``what``: of a solution or a hidden test. ``where``: the file, and those that it is in."""

    what: str
    where: str


def shipped(release: Path, chapters: list[Chapter]) -> list[Shipped]:
    """What of the chapters' solutions and hidden tests lies in the files of a release, archives and wheels opened.

    Raises ValueError where the release holds no code at all: nothing was searched.
    """
    held = dict(_files(release))
    code = {name: set().union(*map(stretches_of, pieces)) for name, pieces in _code(held)}
    if not any(code.values()):
        raise ValueError(f"{release} holds no code to search for solutions.")
    found = [
        Shipped("a hidden test, or what it is made of", name) for name in held if _HIDDEN.search(name.split("!")[-1])
    ]
    for chapter in chapters:
        for function, own in _solutions(chapter):
            what = f"the solution of {chapter.name}.{function}"
            found += [Shipped(what, name) for name, has in code.items() if len(own & has) >= LEAST * len(own)]
    return found


def _solutions(chapter: Chapter) -> Iterator[tuple[str, set[int]]]:
    """By function the stretches of its solution that are not the released notebook's."""
    cells = [cell.source for cell in chapter.notebook.cells if cell.cell_type == "code"]
    given = set().union(*(stretches_of(_SOLUTION.sub("", source)) for source in cells))
    for function in chapter.functions.values():
        if own := stretches_of(chapter.solution(function)) - given:
            yield function, own


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield from _opened(str(path.relative_to(folder)), path.read_bytes())


def _opened(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """A file by its name, or those in it: ``site.zip!exercises/gpulab.whl!gpulab/units.py``."""
    if not name.endswith((".zip", ".whl")):
        yield name, content
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.namelist():
            yield from _opened(f"{name}!{member}", archive.read(member))


def _code(files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """The pieces of code in each file: each is read alone, for the reading ends where something is no Python."""
    for name, content in files.items():
        if read := _READ.get(Path(name).suffix):
            yield name, read(content.decode("utf-8", "replace"))


def _of_notebook(text: str) -> list[str]:
    return [cell.source for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"]


def _of_page(text: str) -> list[str]:
    """What stands in a page as code or as output."""
    return [html.unescape(re.sub(r"<[^>]+>", "", shown)) for shown in _SHOWN.findall(text)]


def _of_markdown(text: str) -> list[str]:
    return [code for _, code in _FENCED.findall(text)]


_READ = {".py": lambda text: [text], ".ipynb": _of_notebook, ".html": _of_page, ".md": _of_markdown}
