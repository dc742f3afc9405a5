"""``python -m autograder mark views.ipynb``, and ``gpulab-mark views.ipynb`` where it is installed by itself."""

import argparse
import os
import sys
import time
import webbrowser
from importlib import metadata, util
from pathlib import Path

from autograder.core import screen
from autograder.core.layout import ROOT
from autograder.core.printable import on_terminal, say
from autograder.selfcheck.packed import is_packed

ABOUT = "Run the hidden tests of a chapter on your own notebook, and open a page that says what they found."


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    screen.add_options(parser)
    parser.add_argument("--solution", action="store_true", help="show the reference solutions before full marks, too")
    parser.add_argument(
        "--no-sandbox", action="store_true", help="run your code without bubblewrap, as you would yourself"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpulab-mark")
    add_options(parser)
    return run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """Mark, print, write the page. Returns 0, however many points there are; 2 where nothing could be marked."""
    if problem := system_problem() or gpulab_problem():
        return _refused(problem)
    try:
        return _mark(options)
    except KeyboardInterrupt:
        return _refused("You interrupted it.")


def _mark(options: argparse.Namespace) -> int:
    print("Getting ready ...", flush=True)  # what follows imports for seconds
    from autograder.notebooks import ahead

    ahead.start(not options.no_sandbox)
    from autograder.selfcheck.mark import mark
    from autograder.selfcheck.page import Solutions, page
    from autograder.selfcheck.reading import CannotMark

    try:
        written = screen.place(options.notebook, options.page)
        marked = mark(
            options.notebook, not options.no_sandbox, lambda chapter: _begin(options.notebook, chapter), _tell
        )
        shown = Solutions.ALL if options.solution else Solutions.EARNED
        screen.write(written, page(marked, options.notebook.name, shown))
    except (CannotMark, screen.NoPlace) as why:
        return _refused(str(why))
    _report(marked, written)
    if not options.no_browser and screen.has_screen():
        webbrowser.open(written.as_uri())
    return 0


def system_problem() -> str:
    """Why notebooks cannot be marked on this system, and what to do, or an empty string where they can.

    Asked before anything is imported that such a system lacks: Windows has no ``fork`` and no limits for a process.
    """
    if hasattr(os, "fork") and all(util.find_spec(name) for name in ("fcntl", "resource")):
        return ""
    return (
        "Marking needs Linux, macOS or WSL, the Linux inside Windows. To get WSL, type `wsl --install` in a PowerShell "
        "that was opened as administrator, and restart. Then open Ubuntu from the Start menu and type there the lines of "
        "the chapter's page."
    )


def gpulab_problem() -> str:
    """Why the installed gpulab does not fit, and what to do, or an empty string when it does."""
    found = util.find_spec("gpulab")
    if found is None or found.origin is None:
        return f"gpulab is not installed for {sys.executable}: pip install the gpulab wheel of the chapter's page."
    own, theirs = _version("gpulab-mark"), _version("gpulab")
    if is_packed() and own != theirs:
        return f"This is gpulab-mark {own}, and gpulab is {theirs}: pip install both wheels of the chapter's page."
    if (folder := Path(found.origin).parents[1]) != ROOT:
        return f"gpulab lies in {folder} and its marker in {ROOT}: install both wheels into one environment."
    return ""


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "of an unknown version"


def _begin(path: Path, chapter) -> None:
    saved = time.strftime("%H:%M:%S", time.localtime(path.stat().st_mtime))
    say(f"{chapter.title}: {path.name}, as it was saved at {saved}")
    if sys.platform != "linux":
        print("Your code runs without a sandbox: that needs Linux. It is your own code.", flush=True)
    print("It runs from the first cell to the last, which takes seconds.", flush=True)


def _tell(function: str, verdict) -> None:
    from autograder.selfcheck.mark import mark_of

    print(mark_of(function, verdict), flush=True)


def _report(marked, written: Path) -> None:
    for line in marked.marks().summary(screen.columns()):
        say(line)
    say(f"What each point was lost for, what to read again, and hints: {written}")


def _refused(why: str) -> int:
    print(f"Nothing was marked. {on_terminal(why)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
