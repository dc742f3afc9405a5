"""What a learner sees of a marking: the terminal, the browser, the page's file. Imports nothing of the course's."""

import argparse
import os
import shutil
import sys
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of every marker."""
    parser.add_argument(
        "notebook", type=Path, help="the chapter's notebook with your code in it, saved; it is only read"
    )
    parser.add_argument("--no-browser", action="store_true", help="name the page, do not open it")
    parser.add_argument("--page", type=Path, help="where to write the page (default: beside the notebook)")


class NoPlace(Exception):
    """The page cannot be written; says where and what to do."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"The page cannot be written to {path}: name another place with --page.")


def place(notebook: Path, page: Path | None) -> Path:
    """Where the page of a notebook goes, which ``page`` may say. Raises NoPlace where nothing can be written."""
    path = (page or notebook.with_name(f"{notebook.stem}-marked.html")).resolve()
    if notebook.exists() and (path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK)):
        raise NoPlace(path)
    return path


def write(path: Path, page: str) -> None:
    """The page, in which a learner's text may hold broken Unicode. Raises NoPlace."""
    try:
        path.write_text(page, "utf-8", "backslashreplace")
    except OSError:
        raise NoPlace(path) from None


def columns() -> int:
    """Of text in the terminal; 100 at most."""
    return min(shutil.get_terminal_size().columns, 100)


def has_screen() -> bool:
    """Whether a browser can open: one in the terminal would take it over."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
