"""What people get wrong in an exercise, in words to them: ``exercises/<chapter>/<exercise>/misconceptions.yml``.

Each has a key, a name for an instructor's list, a sentence to the person who holds it and the section of the chapter to read
again; its forms are the wrong solutions of the corpus that say its key. It may have two hints of its own, as a function has in
``hints.yml``. Beside them stand the clauses that no wrong solution can break, and the mutants of the solution that are right,
each with the reason.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from autograder.core.layout import ROOT
from autograder.core.problems import Unreadable

MISCONCEPTIONS = "misconceptions.yml"


@dataclass(frozen=True)
class Misconception:
    """``name``: two to five words. ``says``: at most 45 words, the first of what its function does. ``read``: a section's title.

    ``hints``: two, the gentler first, or none, where those of the function serve.
    """

    key: str
    name: str
    says: str
    read: str
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class EquivalentMutant:
    """A mutant of the solution that is right: the line, what becomes of it, and why."""

    line: str
    becomes: str
    because: str


@dataclass(frozen=True)
class Said:
    """What stands in the file. ``unbreakable``: reasons by tag."""

    misconceptions: tuple[Misconception, ...] = ()
    unbreakable: dict[str, str] = field(default_factory=dict)
    equivalent_mutants: tuple[EquivalentMutant, ...] = ()


def read_misconceptions(path: Path) -> Said:
    """Nothing where there is no file. Raises Unreadable, with file and line where it has one."""
    if not path.exists():
        return Said()
    try:
        said = yaml.load(path.read_text("utf-8"), _Strict) or {}
        if unknown := said.keys() - {"misconceptions", "unbreakable", "equivalent_mutants"}:
            raise TypeError(f"it has no {', '.join(sorted(map(str, unknown)))}")
        named = said.get("misconceptions") or {}
        return Said(
            tuple(_misconception(key, **words) for key, words in named.items()),
            said.get("unbreakable") or {},
            tuple(EquivalentMutant(**words) for words in said.get("equivalent_mutants") or ()),
        )
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Unreadable(f"{path}{line}: {error.problem}") from error
    except (AttributeError, TypeError) as error:
        raise Unreadable(f"{path}: {str(error).replace('Misconception.__init__()', 'a misconception')}") from error


def _misconception(key: str, **words: Any) -> Misconception:
    """Raises TypeError where its hints are not two sentences."""
    if "hints" not in words:
        return Misconception(key, **words)
    hints = words.pop("hints")
    if not (isinstance(hints, list) and len(hints) == 2 and all(isinstance(one, str) and one.strip() for one in hints)):
        raise TypeError(f"the hints of {key} are to be a list of two sentences, the gentler first")
    return Misconception(key, **words, hints=tuple(hints))


def misconceptions_of(exercise: str) -> dict[str, Misconception]:
    """Those of ``<chapter>.<exercise>``, by key. Raises Unreadable."""
    chapter, _, function = exercise.partition(".")
    said = read_misconceptions(ROOT / "exercises" / chapter / function / MISCONCEPTIONS)
    return {one.key: one for one in said.misconceptions}


class _Strict(yaml.SafeLoader):
    """Refuses a key that stands twice: YAML would drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)
