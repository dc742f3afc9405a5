"""A writable copy of the project for tests of authoring, and texts whose blocks of code are written into it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
_BLOCK = re.compile(r"^[^\n]*`([\w/]+\.(?:py|txt|yml))`:\n\n```(?:python|yaml)?\n(.*?)^```$", re.M | re.S)


class Copy:
    """The graders, the book's contents and claims, one page; no exercise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("autograder", "gpulab"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in (
            "_toc.yml",
            "chapters/claims.yml",
            "chapters/tensors/views.claims.yml",
            "chapters/tensors/views.md",
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        for name in ("tests/gates", "tests/book", "exercises"):
            (folder / name).mkdir(parents=True)

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """``python <arguments>`` in the copy."""
        environment = os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300
        )

    def autograder(self, *arguments: str) -> subprocess.CompletedProcess:
        return self.run("-m", "autograder", *arguments)

    def checked_after(self, name: str, slips: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
        """What ``check`` prints after each slip (file, old text, new text) alone; PyTorch is imported once."""
        said = {}
        for slip in slips:
            file, old, new = slip
            text = (self.folder / file).read_text("utf-8")
            assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
            said[slip] = text.replace(old, new)
        done = self.run("-c", _CHECK_EACH, name, json.dumps([[slip[0], text] for slip, text in said.items()]))
        assert done.returncode == 0, done.stderr
        return dict(zip(said, json.loads(done.stdout), strict=True))

    def write_what_is_shown(self, text: str, function: str, blocks: int) -> None:
        """Each of a text's blocks in place of the template's text for the exercise, or of the whole file."""
        shown = _BLOCK.findall(text)
        assert len(shown) == blocks, [name for name, _ in shown]
        for name, code in shown:
            path = self.folder / name
            text = path.read_text("utf-8")
            kept = "" if f"/{function}/" in name else text[: _beginning(text, function)]
            gap = "\n" if name.endswith(".yml") else "\n\n\n"
            path.write_text(f"{kept.rstrip()}{gap}{code}" if kept else code, "utf-8")


_CHECK_EACH = """
import contextlib, io, json, os, sys
from pathlib import Path
import torch
from autograder.authoring import check, gates

said = []
for name, text in json.loads(sys.argv[2]):
    mine, its = os.pipe()
    kept = Path(name).read_text()
    Path(name).write_text(text)
    if os.fork() == 0:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            check.run(Path("exercises").resolve(), [sys.argv[1]])
        os.write(its, printed.getvalue().encode())
        os._exit(0)
    os.close(its)
    said.append(os.fdopen(mine).read())
    os.wait()
    Path(name).write_text(kept)
print(json.dumps(said))
"""


def _beginning(text: str, function: str) -> int:
    """Where the template's text for the exercise begins."""
    marks = rf"# %% \[markdown\]\n# ## E|# %% wrong {function}|  {function}:"
    found = re.search(f"^({marks})", text, flags=re.M)
    return found.start()
