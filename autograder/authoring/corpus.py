"""Solutions as text, many in one file, read by machines: the format of a corpus and of ``python -m autograder try``.

    # %% wrong sectors counts_lanes loses=sectors,errors
    def sectors(addresses, item_bytes):
        return len(addresses)

    # %% right sectors by_sets
    def sectors(addresses, item_bytes): ...

A head names the function, the solution, and of a wrong one the criteria that it is to lose (without ``loses``: any) and
``says``, the key of the misconception that it is a form of. What follows is the source of its cell.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.mistakes import Unreadable

HEAD = re.compile(r"# %% (?P<kind>wrong|right) (?P<function>\w+) (?P<name>\w+)(?P<fields>(?: \w+=\S*)*)\s*")
_FIELDS = {"wrong": {"loses", "says"}, "right": set()}


@dataclass(frozen=True)
class Solution:
    """One solution of ``function``. ``loses``: the criteria that it is to lose; None where any will do."""

    function: str
    name: str
    source: str
    wrong: bool
    loses: tuple[str, ...] | None = ()
    says: str = ""


def read_corpus(path: Path) -> list[Solution]:
    """The solutions of a file, in order. Raises Unreadable, with file and line."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path}: {error}") from error
    found: dict[tuple[str, str], Solution] = {}
    for number, head, source in _blocks(lines, path):
        solution = _solution(head, source, f"{path}:{number}")
        if (key := (solution.function, solution.name)) in found:
            raise Unreadable(f"{path}:{number}: {solution.function} has a solution {solution.name} already")
        found[key] = solution
    if not found:
        raise Unreadable(
            f"{path}: no solution in it: each begins with a line `# %% wrong FUNCTION NAME` or `# %% right ...`"
        )
    return list(found.values())


def _blocks(lines: list[str], path: Path) -> Iterator[tuple[int, str, str]]:
    """Number and text of each head, from 1, and the source below it."""
    heads = [at for at, line in enumerate(lines) if line.startswith("# %%")]
    for at, line in enumerate(lines[: heads[0]] if heads else lines):
        if line.strip() and not line.startswith("#"):
            raise Unreadable(f"{path}:{at + 1}: code above the first head")
    for at, end in zip(heads, [*heads, len(lines)][1:], strict=True):
        yield at + 1, lines[at], "\n".join(lines[at + 1 : end]).strip("\n") + "\n"


def _solution(head: str, source: str, place: str) -> Solution:
    match = HEAD.fullmatch(head)
    if not match:
        raise Unreadable(
            f"{place}: `{head}` is no head: write `# %% wrong FUNCTION NAME loses=a,b` or `# %% right FUNCTION NAME`"
        )
    kind, function = match["kind"], match["function"]
    fields = dict(field.split("=", 1) for field in match["fields"].split())
    if unknown := sorted(fields.keys() - _FIELDS[kind]):
        raise Unreadable(f"{place}: a {kind} solution has no {', '.join(unknown)}")
    if "loses" in fields and not all(fields["loses"].split(",")):
        raise Unreadable(f"{place}: loses={fields['loses']} names no criteria: write loses=a,b")
    if function not in _bound(source, place):
        raise Unreadable(f"{place}: the source defines no {function}")
    loses = tuple(fields["loses"].split(",")) if "loses" in fields else None
    return Solution(
        function, match["name"], source, kind == "wrong", loses if kind == "wrong" else (), fields.get("says", "")
    )


def _bound(source: str, place: str) -> set[str]:
    """The names that a source binds at its top, by whatever statement."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise Unreadable(f"{place}: {type(error).__name__}: {error}") from error
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return defined | stored | imported
