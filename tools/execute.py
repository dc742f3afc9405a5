"""Executes the book's pages whose cells changed, side by side, into the cache that the site is built from.

Called by make before Jupyter Book, which executes one page after another. A page that fails
here is left to Jupyter Book: it executes it again and says what is wrong.
"""

import logging
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor

from gpulab.book.contents import Contents

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "_build" / ".jupyter_cache"
CELL = "```{code-cell}"
SECONDS_A_CELL = 600
"""More than _config.yml allows: here every core is busy."""


def main() -> None:
    cache = get_cache(KEPT)
    shown = [ROOT / f"{page}.md" for page in sorted(Contents.read(ROOT).pages)]
    pages = [str(page) for page in shown if page.is_file() and CELL in page.read_text("utf-8")]
    for page in pages:
        cache.add_nb_to_project(page, read_data={"name": "myst_nb_md", "type": "plugin"})
    if changed := [record.uri for record in cache.list_unexecuted(pages)]:
        print(f"-- Executing {len(changed)} pages, side by side", flush=True)
        # Not jupyter-cache's own pool: it deals out three pages at a time, and the longest come last.
        os.environ["OMP_NUM_THREADS"] = (
            "1"  # each page has a core, and threads of two would wait for each other on both
        )
        with _silence(), multiprocessing.Pool() as pool:
            pool.map(_execute, sorted(changed, key=_code_bytes, reverse=True), chunksize=1)


def _execute(page: str) -> None:
    executor = load_executor("local-serial", get_cache(KEPT), logger=logging.getLogger("execute"))
    executor.run_and_cache(filter_uris=[page], timeout=SECONDS_A_CELL)


def _code_bytes(page: str) -> int:
    """Of all its cells: a guess at how long it takes."""
    return sum(len(cell.split("```", 1)[0]) for cell in Path(page).read_text("utf-8").split(CELL)[1:])


@contextmanager
def _silence() -> Iterator[None]:
    """What kernels say of themselves as they start goes nowhere; nor does a failure, which Jupyter Book will say."""
    said, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(said, 2)


if __name__ == "__main__":
    main()
