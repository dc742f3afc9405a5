"""A scheduler from a file of the learner's own."""

import ast
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from gpulab.serving.plan import Scheduler
from gpulab.serving.schedulers.named import SCHEDULERS

_NAMED = re.compile(r"(.+?\.(?:py|ipynb)):(.+)", re.DOTALL)


def scheduler(name: str) -> Callable[[], Scheduler]:
    """Makes one anew at each call: ``chunked``, ``continuous``, ``static``, or ``FILE.py:CALL``, ``FILE.ipynb:CALL`` with a
    call such as ``continuous_batcher(patience=4)``.

    The file is read once. Of a notebook those statements are run that bind a name which ``CALL`` needs, and nothing else. Raises
    ValueError for what cannot be read or plans nothing; what it returns does, too.
    """
    if name in SCHEDULERS:
        return SCHEDULERS[name]
    found = _NAMED.fullmatch(name)
    if not found or not Path(found[1]).is_file():
        raise ValueError(f"a scheduler is {', '.join(SCHEDULERS)}, or FILE.py:CALL of a file that is there; not {name}")
    return _Plugin(Path(found[1]), found[2])


class _Plugin:
    """A file's module, and the call that makes a scheduler of it."""

    def __init__(self, file: Path, call: str) -> None:
        self._file, self._call = file, call
        self._unread: list[str] = []
        self._module = self._attempted(self._loaded)

    def __call__(self) -> Scheduler:
        found = self._attempted(lambda: eval(self._call, vars(self._module)))
        found = self._attempted(found) if isinstance(found, type) else found
        if not callable(getattr(found, "plan", None)):
            kind = type(found).__name__
            expected = "an object with plan(waiting, running, blocks, budget)"
            raise ValueError(f"{self._call} of {self._file} gives {kind}; expected {expected}")
        return found

    def _attempted(self, act: Callable):
        try:
            return act()
        except (Exception, SystemExit) as error:
            also = f" ({'; '.join(self._unread)})" if self._unread else ""
            raise ValueError(f"{self._call} of {self._file} raised {type(error).__name__}: {error}{also}") from error

    def _loaded(self) -> ModuleType:
        """The file as a module, which may import its neighbours."""
        name, folder = f"gpulab_plugin_{self._file.stem}", str(self._file.resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        if self._file.suffix == ".py":
            spec = importlib.util.spec_from_file_location(name, self._file)
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(self._file)
        lines = _needed(list(self._statements()), _read(ast.parse(self._call, mode="eval")))
        lines.sort(key=lambda line: not _of_the_future(line))
        exec(compile(ast.Module(lines, []), str(self._file), "exec"), vars(module))
        return module

    def _statements(self) -> Iterator[ast.stmt]:
        """Of a notebook's cells; those that are not Python are noted."""
        for number, cell in enumerate(json.loads(self._file.read_bytes())["cells"], 1):
            if cell["cell_type"] == "code":
                try:
                    yield from _parsed("".join(cell["source"])).body
                except SyntaxError as error:
                    self._unread.append(f"cell {number} is not Python: {error.msg}")


def _parsed(text: str) -> ast.Module:
    """A cell, which may hold IPython's magics."""
    try:
        return ast.parse(text)
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        return ast.parse(TransformerManager().transform_cell(text))


def _needed(lines: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """Those that bind one of the names, and what these read in turn: another exercise of the notebook may be unfinished."""
    found = [line for line in lines if _bound(line) & names or _for_all(line)]
    more = names.union(*map(_read, found))
    return found if more == names else _needed(lines, more)


def _for_all(line: ast.stmt) -> bool:
    return _of_the_future(line) or isinstance(line, ast.ImportFrom) and line.names[0].name == "*"


def _of_the_future(line: ast.stmt) -> bool:
    return isinstance(line, ast.ImportFrom) and line.module == "__future__"


def _read(tree: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}


def _bound(line: ast.stmt) -> set[str]:
    """The names that a statement binds, or whose attributes and items it sets."""
    if isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {line.name}
    if isinstance(line, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in line.names}
    inside = [part for part in ast.iter_child_nodes(line) if isinstance(part, ast.stmt | ast.excepthandler)]
    stored = {_base(part) for part in ast.walk(line) if isinstance(getattr(part, "ctx", None), ast.Store)}
    return stored.union(*map(_bound, inside))


def _base(target: ast.expr) -> str:
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
