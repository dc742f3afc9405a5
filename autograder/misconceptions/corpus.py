"""Attempts at exercises as text, many in one file: a chapter's ``corpus.txt``, and what ``python -m autograder try`` grades.

    # %% wrong sectors counts_lanes loses=sectors,errors breaks=c2 says=one_a_lane
    def sectors(addresses, item_bytes):
        return len(addresses)

    # %% right sectors by_sets
    def sectors(addresses, item_bytes): ...

    # %% cheat sectors equal_to_everything
    def sectors(addresses, item_bytes): ...

A head names the function and the attempt, and of a wrong one the criteria that it is to lose (without ``loses``: any), the
tags of the clauses that it breaks, and ``says``, the key of the misconception that it is a form of. A cheat wants points
without the work, and is to lose every criterion. What follows is the source of its cell.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.core.problems import Unreadable, where

CORPUS = "corpus.txt"
_HEAD = re.compile(r"# %% (?P<kind>wrong|right|cheat) (?P<function>\w+) (?P<name>\w+)(?P<fields>(?: \w+=.*)?)")
_FIELD = re.compile(r" (\w+)=(.*?)(?= \w+=|$)")
_FIELDS = {"wrong": {"loses", "breaks", "says"}, "right": set(), "cheat": set()}


@dataclass(frozen=True)
class Attempt:
    """A stand-in for the solution of one function.

    ``kind``: ``wrong``, ``right`` or ``cheat``. ``source``: its cell. ``loses``: the criteria that it is to lose, all others
    it is to earn; None where any will do, or of a cheat, which is to lose all. ``breaks``: tags of clauses. ``says``: the key
    of a misconception, or nothing.
    """

    function: str
    name: str
    source: str
    kind: str = "right"
    loses: tuple[str, ...] | None = ()
    breaks: tuple[str, ...] = ()
    says: str = ""


def read_corpus(path: Path) -> list[Attempt]:
    """The attempts of a file, in order. Raises Unreadable, with file and line."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(where(error, path)) from error
    found: dict[tuple[str, str], Attempt] = {}
    for number, head, source in _blocks(lines, path):
        attempt = _attempt(head, source, path, number)
        if (key := (attempt.function, attempt.name)) in found:
            raise Unreadable(f"{path}:{number}: {attempt.function} has an attempt {attempt.name} already")
        found[key] = attempt
    return list(found.values())


def attempts_at(path: Path, function: str) -> list[Attempt]:
    """Those at one function, of a file that was read whole before: no source is parsed, since a learner may wait for it."""
    blocks = _blocks(path.read_text("utf-8").split("\n"), path)
    heads = ((_HEAD.fullmatch(head.rstrip()), number, source) for number, head, source in blocks)
    return [
        _attempt_of(head, source, f"{path}:{number}")
        for head, number, source in heads
        if head and head["function"] == function
    ]


def as_text(attempts: Sequence[Attempt]) -> str:
    """Wrong attempts as a corpus holds them, without the clauses that they break."""
    heads = (
        f"# %% {one.kind} {one.function} {one.name} loses={','.join(one.loses)} says={one.says}" for one in attempts
    )
    return "\n".join(f"{head}\n{one.source}" for head, one in zip(heads, attempts, strict=True))


def _blocks(lines: list[str], path: Path) -> Iterator[tuple[int, str, str]]:
    """Number and text of each head, from 1, and the source below it."""
    heads = [at for at, line in enumerate(lines) if line.startswith("# %%")]
    for at, line in enumerate(lines[: heads[0]] if heads else lines):
        if line.strip() and not line.startswith("#"):
            raise Unreadable(f"{path}:{at + 1}: code above the first head")
    for at, end in zip(heads, [*heads, len(lines)][1:], strict=True):
        yield at + 1, lines[at], "\n".join(lines[at + 1 : end]).strip("\n") + "\n"


def _attempt(head: str, source: str, path: Path, number: int) -> Attempt:
    place = f"{path}:{number}"
    match = _HEAD.fullmatch(head.rstrip())
    if not match:
        raise Unreadable(
            f"{place}: `{head}` is no head: write `# %% wrong FUNCTION NAME loses=a,b`, `# %% right FUNCTION NAME` "
            f"or `# %% cheat FUNCTION NAME`"
        )
    attempt = _attempt_of(match, source, place)
    if attempt.function not in _bound(source, path, number):
        raise Unreadable(f"{place}: the source defines no {attempt.function}")
    return attempt


def _attempt_of(head: re.Match, source: str, place: str) -> Attempt:
    kind, fields = head["kind"], dict(_FIELD.findall(head["fields"]))
    if unknown := sorted(fields.keys() - _FIELDS[kind]):
        raise Unreadable(f"{place}: a {kind} attempt has no {', '.join(unknown)}")
    loses, breaks = _names(fields, "loses", "criteria", place), _names(fields, "breaks", "clauses", place)
    loses = () if kind == "right" else loses
    return Attempt(head["function"], head["name"], source, kind, loses, breaks or (), fields.get("says", ""))


def _names(fields: dict[str, str], field: str, what: str, place: str) -> tuple[str, ...] | None:
    """Those that a field of the head lists; None where it has no such field."""
    if field not in fields:
        return None
    names = tuple(fields[field].split(","))
    if not all(names):
        raise Unreadable(f"{place}: {field}={fields[field]} names no {what}: write {field}=a,b")
    return names


def _bound(source: str, path: Path, head: int) -> set[str]:
    """The names that a source, below line ``head``, binds at its top, by whatever statement."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise Unreadable(f"{path}:{head + (error.lineno or 0)}: SyntaxError: {error.msg}") from error
    except ValueError as error:
        raise Unreadable(f"{path}:{head}: {error}") from error
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
