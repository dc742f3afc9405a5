"""Which file of a submission is its notebook: the one that was asked for, or else what holds the work."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from autograder.core.printable import printable
from autograder.intake.archives import notebooks_in
from autograder.intake.brought import with_what_it_brings
from autograder.intake.files import TIMESTAMP, Handed, content, may_be_one
from autograder.intake.merged import completed
from autograder.intake.notebook_file import Read, read, read_bytes
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released

MOST_READ, MOST_READ_BYTES = 30, 128 * 1024**2
"""Files that are opened in search of a notebook."""
MOST_ARCHIVES = 10
"""That are opened for it."""
_A_NOTEBOOK = (True, True)
"""Of the kinds of files that hold work, see ``_ranked``."""
_NOT_OPENED = (".zip", ".gz", ".tgz", ".tar", ".rar", ".7z", ".xz", ".bz2", ".pdf", ".html")
"""Named where no notebook was found, in them neither."""


def found_in(handed: Handed, name: str, released: Released, others: frozenset[str] = frozenset()) -> Read:
    """The notebook called ``name`` (without suffix), or what holds the work where that is called otherwise.

    ``others``: the names of the assignment's other notebooks. Raises NotGradable.
    """
    expected, problem = handed.folder / f"{name}.ipynb", None
    asked_for = None
    if expected.exists() or expected.is_symlink():
        try:
            asked_for = with_what_it_brings(read(expected, expected.name), released, handed.folder)
        except NotGradable as error:
            problem = error
        else:
            if not asked_for.is_untouched(released):
                return _beside_others(asked_for, handed, expected, released, others)
    best = _best(handed, expected, released, others)
    if best is not None:
        return _instead(best, expected, asked_for, problem)
    if asked_for is not None:
        return asked_for
    raise problem or NotGradable(_nothing_found(handed, expected))


def _beside_others(asked_for: Read, handed: Handed, expected: Path, released: Released, others: frozenset[str]) -> Read:
    """What was asked for counts; what it does not answer is taken from notebooks beside it."""
    if asked_for.answers(released) == len(released.functions):
        return asked_for
    ranked = _ranked(handed, expected, released, others)
    return completed(asked_for, [found for kind, found in ranked if kind == _A_NOTEBOOK], released)[0]


def _best(handed: Handed, expected: Path, released: Released, others: frozenset[str]) -> Read | None:
    """The file with most work, completed by the others of its kind; those from which nothing was taken are named in its notes."""
    ranked = _ranked(handed, expected, released, others)
    if not ranked:
        return None
    first, best = ranked[0]
    alike = [found for kind, found in ranked[1:] if kind == first]
    whole, left = completed(best, alike, released) if first == _A_NOTEBOOK else (best, alike)
    return replace(whole, notes=(*whole.notes, *_also([found.name for found in left])))


def _ranked(
    handed: Handed, expected: Path, released: Released, others: frozenset[str]
) -> list[tuple[tuple[bool, bool], Read]]:
    """The files that hold work: notebooks with most of it first, then the newest; copies in an editor's folders come last.

    With each its kind: whether it is no such copy, and whether it is called a notebook.
    """
    ranked = []
    for found in _readable(handed, expected, released, others):
        if answers := found.answers(released):
            is_a_copy = any(part.startswith((".", "__")) for part in Path(found.name).parts)
            kind, written = (not is_a_copy, ".ipynb" in found.name), found.path.stat().st_mtime_ns
            ranked.append(((kind, answers, found.held(released), written), kind, found))
    ranked.sort(key=lambda one: one[0], reverse=True)
    return [(kind, found) for _, kind, found in ranked]


def _also(names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(f"`{name}`" for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"Other files hold answers too, and were not graded: {shown}."]


def _readable(handed: Handed, expected: Path, released: Released, others: frozenset[str]) -> Iterator[Read]:
    """What may be the notebook, what is called like one first, and what lies in archives last; a bounded part of it."""
    left = MOST_READ_BYTES
    for path, member, raw in islice(_candidates(handed, expected, others), MOST_READ):
        left -= path.stat().st_size
        if left < 0:
            return
        name = f"{handed.name(path)}/{printable(member)}" if member else handed.name(path)
        with suppress(NotGradable, OSError):
            found = replace(read_bytes(path, name, raw()), member=member)
            yield with_what_it_brings(found, released, handed.folder)


def _candidates(
    handed: Handed, expected: Path, others: frozenset[str]
) -> Iterator[tuple[Path, str, Callable[[], bytes]]]:
    paths = [path for path in handed.may_be_notebooks() if path != expected and path.stem not in others]
    like = lambda path: (expected.stem not in path.name.lower(), ".ipynb" not in path.name, len(path.parts))
    for path in sorted(paths, key=like):
        yield path, "", lambda path=path: content(path, handed.name(path))
    for archive in handed.archives()[:MOST_ARCHIVES]:
        for name, raw in notebooks_in(archive):
            yield archive, name, lambda raw=raw: raw


def _instead(found: Read, expected: Path, asked_for: Read | None, problem: NotGradable | None) -> Read:
    if asked_for is not None:
        note = f"`{expected.name}` holds no answer, `{found.name}` does: that was graded."
    elif problem is not None:
        note = f"{problem} `{found.name}` was graded instead."
    else:
        note = f"The submission holds no `{expected.name}`: `{found.name}` was graded."
    return replace(found, notes=(note, *found.notes))


def _nothing_found(handed: Handed, expected: Path) -> str:
    shown = [path for path in handed.paths if may_be_one(path) or path.suffix.lower() in _NOT_OPENED]
    names = [handed.name(path) for path in shown if path.name != TIMESTAMP]
    found = f"found {', '.join(f'`{name}`' for name in names[:10])}" if names else "found no notebook at all"
    return f"The submission holds no `{printable(expected.name)}` ({found}): hand it in under this name."
