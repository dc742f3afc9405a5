"""Which solutions a release ships: of a course whose points count it is to ship none.

A release is searched for code like that of :mod:`~autograder.grading.similar`: names, numbers and comments do not count.
"""

import gzip
import html
import io
import re
import textwrap
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder.core.hidden_region import BEGIN_SOLUTION, END_SOLUTION
from autograder.grading.similar import stretches_of, stretches_until
from autograder.notebooks.cells import cell_of
from autograder.selfcheck.chapters import Chapter

LEAST = 0.75
"""Part of a solution's stretches, beyond those of the cell that is given for it. The pages' own lessons share two thirds with some."""
_HIDDEN = re.compile(r"(^|/)(judge\.py|hints\.yml|corpus\.txt|misconceptions\.yml|trials\.json|exercises/.*\.py)$")
"""Names of files that learners of a graded course do not get."""
MOST_READINGS = 50
"""Of a piece: behind so many lines that are no Python it is none."""
_OPENED, _CLOSED = (".zip", ".whl"), (".tar", ".tgz", ".bz2", ".xz", ".7z", ".rar")
_SOLUTION = re.compile(f"{BEGIN_SOLUTION}.*?{END_SOLUTION}", re.S)
_SHOWN = re.compile(r"<(pre|code|textarea)\b[^>]*>(.*?)</\1>", re.S)
_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}|:{3,})[^\n]*\n(.*?)^[ \t]*\1", re.S | re.M)
_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.|\+(?!\+)|In \[\d+\]:)[ ]?", re.M)


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
    code = {name: set().union(*map(_stretches_in, pieces)) for name, pieces in _code(held)}
    if not any(code.values()):
        raise ValueError(f"{release} holds no code to search for solutions.")
    found = [Shipped("a hidden test, or what it is made of", name) for name in held if _HIDDEN.search(_own(name))]
    found += [Shipped("an archive that is not searched", name) for name in held if _own(name).endswith(_CLOSED)]
    for chapter in chapters:
        for function, own in _solutions(chapter):
            what = f"the solution of {chapter.name}.{function}"
            found += [Shipped(what, name) for name, has in code.items() if own and len(own & has) >= LEAST * len(own)]
            found += [Shipped(f"{what}, which is not marked as one", f"{chapter.name}.ipynb")] * (not own)
    return found


def _own(name: str) -> str:
    """A file's name in the innermost archive, in small letters."""
    return name.rsplit("!", 1)[-1].lower()


def _solutions(chapter: Chapter) -> Iterator[tuple[str, set[int]]]:
    """By function the stretches of its solution that the cell given for it has not. Where none is marked, all are given."""
    for function in chapter.functions.values():
        given = stretches_of(_SOLUTION.sub("", cell_of(chapter.notebook, function).source))
        yield function, stretches_of(chapter.solution(function)) - given


def _stretches_in(piece: str) -> set[int]:
    """Also of what stands behind prompts and a diff's signs, or behind a line that is no Python."""
    found = set[int]()
    for text in {piece, _PROMPT.sub("", piece)}:
        for _ in range(MOST_READINGS):
            lines = textwrap.dedent(text).splitlines(keepends=True)
            stretches, line = stretches_until("".join(lines))
            found |= stretches
            if line is None or line >= len(lines):
                break
            text = "".join(lines[line:])
    return found


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield from _opened(str(path.relative_to(folder)), path.read_bytes())


def _opened(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """A file by its name, or those in it: ``site.zip!exercises/gpulab.whl!gpulab/units.py``."""
    if name.lower().endswith(".gz"):
        yield from _opened(name[:-3], gzip.decompress(content))
        return
    if not name.lower().endswith(_OPENED):
        yield name, content
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.namelist():
            yield from _opened(f"{name}!{member}", archive.read(member))


def _code(files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """The pieces of each file that may be code."""
    for name, content in files.items():
        if read := _READ.get(Path(name).suffix.lower()):
            yield name, read(content.decode("utf-8", "replace"))


def _of_notebook(text: str) -> list[str]:
    """Of all its cells, and what they put out as text."""
    pieces = []
    for cell in nbformat.reads(text, as_version=4).cells:
        pieces += [cell.source] if cell.cell_type != "markdown" else [cell.source, *_of_markdown(cell.source)]
        for output in cell.get("outputs", []):
            pieces += [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
    return pieces


def _of_page(text: str) -> list[str]:
    """What stands in a page as code or as output."""
    return [html.unescape(re.sub(r"<[^>]+>", "", shown)) for _, shown in _SHOWN.findall(text)]


def _of_markdown(text: str) -> list[str]:
    return [code for _, code in _FENCED.findall(text)]


def _whole(text: str) -> list[str]:
    return [text]


_READ = {".py": _whole, ".txt": _whole, ".rst": _whole, ".ipynb": _of_notebook, ".md": _of_markdown}
_READ |= {".html": _of_page, ".htm": _of_page}
