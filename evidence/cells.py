"""The book's own cells on this machine's GPU: every exercise notebook with its solutions, and pages.

    python -m evidence.cells exercises/streams/notebook.py    one file, as a line of JSON

``gpulab.cuda.use("virtual:...")`` then means the GPU, with a fresh allocator: the promise is that the same
source runs on both. Ghost cards stay, and so does what compares one virtual card with another, and the cards of
ranks: a process that is forked when CUDA has begun cannot use the GPU. Cells of hidden tests are left out. A cell
that raises does not end the run.
"""

import argparse
import ast
import contextlib
import gc
import io
import json
import os
import re
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

import gpulab.cuda

ROOT = Path(__file__).parents[1]
PAGES = ("tensors", "device", "one_gpu", "serving")
_LONGEST_S = 170
_KEPT_CHARACTERS = 6000
_GRADED = "### BEGIN HIDDEN TESTS"
_MYST = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.M | re.S)
_PERCENT = re.compile(r"^# %%(.*)$", re.M)


@dataclass(frozen=True)
class Cell:
    """A cell's source, the line of the file on which it begins (from 1) and its name, which a notebook's has."""

    source: str
    line: int
    name: str | None = None


def files() -> list[str]:
    """Every exercise notebook, and the pages of ``PAGES``, relative to the repository."""
    notebooks = sorted((ROOT / "exercises").glob("*/notebook.py"))
    pages = sorted(path for part in PAGES for path in (ROOT / "chapters" / part).glob("*.md"))
    return [str(path.relative_to(ROOT)) for path in notebooks + pages]


def cells_of(path: Path) -> list[Cell]:
    """The code cells of a percent notebook or of a MyST page, hidden tests left out."""
    text = path.read_text(encoding="utf-8")
    found = _of_page(text) if path.suffix == ".md" else _of_notebook(text)
    return [cell for cell in found if _GRADED not in cell.source]


def _of_page(text: str) -> Iterator[Cell]:
    for match in _MYST.finditer(text):
        # Options stand in front, as `:tags: [...]`; they become empty lines, and the code keeps its place.
        source = re.sub(r"^:.*$", "", match.group(1), flags=re.M)
        yield Cell(source, text.count("\n", 0, match.start(1)) + 1)


def _of_notebook(text: str) -> Iterator[Cell]:
    marks = list(_PERCENT.finditer(text))
    for mark, after in zip(marks, [*marks[1:], None]):
        if "[markdown]" not in mark.group(1):
            source = text[mark.end() : after.start() if after else len(text)]
            named = re.search(r'"grade_id": "(\w+)"', mark.group(1))
            yield Cell(source, text.count("\n", 0, mark.end()) + 1, named and named.group(1))


def ran(path: Path, real: bool) -> dict:
    """What became of each cell: how many ran, which raised and what, and what those printed that use a card."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    if real:
        _the_gpu_for_virtual()
    cells, raised, printed = cells_of(path), [], []
    for number, cell in enumerate(cells):
        out, error = _run(cell, path, module)
        where = {"cell": cell.name or number, "line": cell.line}
        if error:
            raised.append(where | {"error": error})
        if out and "cuda" in cell.source and path.suffix == ".md":
            printed.append(where | {"source": cell.source.strip(), "printed": out[:_KEPT_CHARACTERS]})
    return {"cells": len(cells), "raised": raised, "printed": printed}


def _run(cell: Cell, path: Path, module: types.ModuleType) -> tuple[str, str | None]:
    """What the cell printed, and the error that it raised, in a line."""
    out = io.StringIO()
    try:
        tree = ast.parse(cell.source, str(path))
        code = compile(ast.increment_lineno(tree, cell.line - 1), str(path), "exec")
        with contextlib.redirect_stdout(out):
            exec(code, vars(module))
    except BaseException as why:
        return out.getvalue(), f"{type(why).__name__}: {(str(why).splitlines() or [''])[0][:300]}"
    return out.getvalue(), None


def _the_gpu_for_virtual() -> None:
    chosen, notebook = gpulab.cuda.use, os.getpid()

    def use(which: str = "auto", **how):
        if which.partition(":")[0] != "virtual" or os.getpid() != notebook:
            return chosen(which, **how)
        runtime = chosen("real", **how)
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return runtime

    gpulab.cuda.use = use


def all_ran(runtime: str, jobs: int) -> dict[str, dict]:
    """Every file, each in a process of its own, ``jobs`` side by side."""
    with ThreadPoolExecutor(jobs) as pool:
        names = files()
        return dict(zip(names, pool.map(lambda name: _apart(name, runtime), names)))


def _apart(name: str, runtime: str) -> dict:
    command = [sys.executable, "-m", "evidence.cells", name, "--runtime", runtime]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "2", "MPLBACKEND": "agg"}
    begin = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        return {"why": f"took longer than {_LONGEST_S} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"cells"')]
    if not lines:
        return {"why": (done.stderr.splitlines() or ["no answer"])[-1][:300]}
    return json.loads(lines[-1]) | {"seconds": round(time.monotonic() - begin, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="evidence.cells", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--runtime", choices=["real", "virtual"], default="real")
    options = parser.parse_args()
    found = ran(ROOT / options.file, options.runtime == "real")
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads and processes that a notebook left are not waited for


if __name__ == "__main__":
    main()
