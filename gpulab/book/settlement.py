"""How a claim is settled, in one word that the reader can trust."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pybtex.database import BibliographyData

from gpulab.published import Measurement, measurement

RUNS, MEASURED, PUBLISHED, MODEL = WORDS = ("runs", "measured", "published", "in the model")
OPEN = "Open on hardware: only the model says so."


@dataclass(frozen=True)
class Settlement:
    """One word, and what stands behind it.

    ``runs``: a test that runs the real thing on this machine: PyTorch's CPU code, a compiler, the file system.
    ``measured``: a record of a real GPU, a file under ``evidence/``.
    ``published``: a key of the bibliography, or the id of a measurement in ``evidence/published.yml``.
    ``in the model``: a test of the virtual card, an interpreter or a simulation. It settles nothing about hardware.
    A test is a pytest node id; tests and records are relative to the repository.
    """

    word: str
    name: str

    @classmethod
    def read(cls, record: dict) -> "Settlement":
        """Read ``{word: name}``. Raises ValueError for an unknown word, or another number of them."""
        if not isinstance(record, dict) or len(record) != 1 or not isinstance(next(iter(record.values())), str):
            raise ValueError(f"{record!r} is no settlement: write one word and one name, such as `runs: tests/...`")
        ((word, name),) = record.items()
        if word not in WORDS:
            raise ValueError(f"{word!r} settles nothing; use one of {', '.join(WORDS)}")
        return cls(word, name)

    @property
    def is_test(self) -> bool:
        return self.word in (RUNS, MODEL)

    def check(self, root: Path, bibliography: BibliographyData) -> None:
        """Raises ValueError where the repository at ``root`` lacks what is named."""
        if self.is_test:
            there = _has_test(root, self.name)
        elif self.word == MEASURED:
            there = self.name.startswith("evidence/") and (root / self.name).is_file()
        else:
            there = self.name in bibliography.entries or published(self.name) is not None
        if not there:
            raise ValueError(f"{self.word}: {self.name}, which does not exist")


def published(name: str) -> Measurement | None:
    """The published measurement of this id, if there is one."""
    try:
        return measurement(name)
    except KeyError:
        return None


def _has_test(root: Path, node: str) -> bool:
    path, _, name = node.partition("::")
    return (root / path).is_file() and name in _tests(root / path)


@cache
def _tests(file: Path) -> frozenset[str]:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return frozenset(n.name for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_"))
