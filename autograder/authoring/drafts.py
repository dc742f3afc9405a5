"""Which chapters alone a file of the repository belongs to, and so what drafts alone need: neither wheels nor tests take it.

A chapter's own files are known by their names, a widget by the pages that show it. ``ROOMS`` and ``FILES`` name the rest.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.core.layout import NOTEBOOK
from gpulab.book.contents import FILE, Contents

ROOMS = {
    "capstone": ("capstone",),
    "feeding": ("feeding", "capstone"),
    "fleet": ("operating",),
    "parallel": ("parallelism",),
    "platforms": ("platforms",),
    "recordings": ("stability",),
    "serving": ("inference", "engines", "capstone"),
    "stability": ("stability",),
}
"""Folders ``gpulab/<room>`` and ``tests/<room>``, as far as there are such, by the chapters that alone need them."""
FILES = {
    "exercises/autograd": ("autograd", "trading"),
    "gpulab/plots/depth.py": ("stability",),
    "gpulab/plots/schedule.py": ("parallelism",),
    "gpulab/plots/splits.py": ("parallelism",),
    "gpulab/plots/waste.py": ("operating",),
    "tests/collectives/test_mini_fsdp.py": ("sharding",),
    "tests/gates/test_caching_allocator_against_two_references.py": ("trading",),
    "tests/gates/test_drawn_traces_hold_their_causes.py": ("profiling",),
    "tests/gates/test_played_loader.py": ("feeding",),
    "tests/gates/test_sentences_at_profiling.py": ("profiling",),
    "tests/gates/test_shards_read_by_webdataset.py": ("feeding",),
    "tests/model/test_recordings.py": ("stability",),
    "tests/unit/test_depth_figure.py": ("stability",),
    "tests/unit/test_engines_replayed.py": ("engines",),
}
"""Other files and folders."""
_OWN = re.compile(
    r"exercises/(\w+)(?:/.*)?|chapters/\w+/(\w+)\.(?:claims\.yml|md)|tests/(?:book/test_claims|gates/test_cheats_at)_(\w+)\.py"
)
_WIDGET = re.compile(r"gpulab/widgets/(\w+)(?:/.*)?|tests/widgets/test_(\w+)\.py")


@dataclass(frozen=True)
class Drafts:
    """Of the repository in the folder ``root``; without a ``_toc.yml`` no chapter is a draft."""

    root: Path

    @cached_property
    def contents(self) -> Contents:
        return Contents.read(self.root) if (self.root / FILE).is_file() else Contents((), {})

    def alone_need(self, path: str) -> bool:
        """Whether no chapter of the book needs the file or folder, ``path`` from the root on."""
        owners = self.owners(path)
        return bool(owners) and owners <= self.contents.draft_names

    def owners(self, path: str) -> frozenset[str]:
        """The chapters that alone need it; none where it is anybody's."""
        return self._named(path) or self._own(path) or self._showing(path)

    def left_out(self, folder: str, names: list[str]) -> set[str]:
        """Of the names in a folder those that drafts alone need: what ``shutil.copytree`` is to ignore."""
        below = Path(folder).relative_to(self.root)
        return {name for name in names if self.alone_need((below / name).as_posix())}

    def _named(self, path: str) -> frozenset[str]:
        top, _, rest = path.partition("/")
        in_room = ROOMS.get(rest.partition("/")[0], ()) if top in ("gpulab", "tests") else ()
        return frozenset(
            next((chapters for name, chapters in FILES.items() if f"{path}/".startswith(f"{name}/")), in_room)
        )

    def _own(self, path: str) -> frozenset[str]:
        """The chapter whose name it bears."""
        found = _OWN.fullmatch(path)
        if not found:
            return frozenset()
        called = next(filter(None, found.groups()))
        known = [Path(page).name for page in (*self.contents.numbers, *self.contents.unnumbered)]
        return frozenset(sorted((name for name in known if f"{called}_".startswith(f"{name}_")), key=len)[-1:])

    def _showing(self, path: str) -> frozenset[str]:
        """The chapters whose pages show a widget; none where another page shows it, too."""
        found = _WIDGET.fullmatch(path)
        pages = self.shown.get(found[1] or found[2], frozenset()) if found else frozenset()
        return frozenset(Path(page).name for page in pages) if pages <= set(self.contents.numbers) else frozenset()

    @cached_property
    def shown(self) -> dict[str, frozenset[str]]:
        """By the folder of a widget the pages that show it, as ``chapters/tensors/views``."""
        texts = {
            path.relative_to(self.root).with_suffix("").as_posix(): path.read_text("utf-8")
            for path in self.root.glob("chapters/**/*.md")
        }
        called = {path.parent.name for path in self.root.glob("gpulab/widgets/*/__init__.py")}
        return {name: frozenset(page for page, text in texts.items() if is_shown(name, text)) for name in called}


def is_shown(widget: str, text: str) -> bool:
    """Whether a page with this text shows the widget in the folder ``widget``."""
    return f"{widget.title().replace('_', '')}(" in text


def written(exercises: Path) -> list[str]:
    """The chapters that have exercises, drafts too: folders with a text notebook."""
    return sorted(path.parent.name for path in exercises.glob(f"*/{NOTEBOOK}"))


def in_the_book(exercises: Path) -> list[str]:
    """Those of them that the book shows; all where the folder ``exercises`` lies beside no ``_toc.yml``."""
    here = exercises.parent
    return [name for name in written(exercises) if not (here / FILE).is_file() or name in Contents.read(here).chapters]
