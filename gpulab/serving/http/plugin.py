"""A scheduler from a file of the learner's own."""

import ast
import json
from pathlib import Path

from gpulab.serving.plan import Scheduler
from gpulab.serving.schedulers.named import SCHEDULERS

_DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def scheduler(name: str) -> Scheduler:
    """``chunked``, ``continuous``, ``static``, or ``FILE.py:CALL``, ``FILE.ipynb:continuous_batcher(patience=4)``.

    Of a notebook the definitions are taken that ``CALL`` needs, and its cells are not run. Raises ValueError for what cannot be read or plans nothing.
    """
    if name in SCHEDULERS:
        return SCHEDULERS[name]()
    file, colon, call = name.rpartition(":")
    if not colon or not Path(file).is_file():
        raise ValueError(f"a scheduler is {', '.join(SCHEDULERS)}, or FILE.py:CALL of a file that is there; not {name}")
    found = _made(Path(file), call)
    if not callable(getattr(found, "plan", None)):
        raise ValueError(
            f"{call} of {file} gives {type(found).__name__}; expected an object with plan(waiting, running, blocks, budget)"
        )
    return found


def _made(file: Path, call: str):
    names: dict = {"__name__": file.stem}
    try:
        exec(compile(_source(file, call), str(file), "exec"), names)  # noqa: S102: the learner's own file, at the learner's own word
        found = eval(call, names)
        return found() if isinstance(found, type) else found
    except Exception as error:
        raise ValueError(f"{call} of {file} raised {type(error).__name__}: {error}") from error


def _source(file: Path, call: str) -> ast.Module:
    if file.suffix != ".ipynb":
        return ast.parse(file.read_text("utf-8"))
    cells = [cell for cell in json.loads(file.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    texts = ["".join(line for line in cell["source"] if line.lstrip()[:1] not in ("%", "!")) for cell in cells]
    defined = [line for text in texts for line in ast.parse(text).body if _defines(line)]
    return ast.Module(_needed(defined, _read(ast.parse(call, mode="eval"))), type_ignores=[])


def _defines(line: ast.stmt) -> bool:
    """A definition, an import, or a constant: nothing that runs."""
    is_constant = isinstance(line, ast.Assign | ast.AnnAssign) and not any(
        isinstance(part, ast.Call) for part in ast.walk(line)
    )
    return isinstance(line, _DEFINES) or is_constant


def _needed(lines: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """Those that give one of the names, and what these read in turn: another exercise of the notebook may be unfinished."""
    found = [line for line in lines if _given(line) & (names | {"*"})]
    more = names.union(*map(_read, found))
    return found if more == names else _needed(lines, more)


def _read(tree: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}


def _given(line: ast.stmt) -> set[str]:
    """The names that a definition, an import or an assignment binds."""
    if isinstance(line, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in line.names}
    if isinstance(line, ast.FunctionDef | ast.ClassDef):
        return {line.name}
    return _read(ast.Module([line], []))
