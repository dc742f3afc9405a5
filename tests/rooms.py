"""Which chapters and which room of the machinery a test belongs to.

``make test CHAPTER=views`` and ``make test ONLY=grader`` choose by it, and a run's costs are summed by it.
"""

from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ROOMS = {
    "grader": ("exploits", "faults", "grading", "pipeline"),
    "device": ("cuda",),
    "kernels": ("kernels",),
    "exercises": ("gates",),
    "pages": ("book", "site", "widgets"),
    "model": ("model",),
    "memory": ("memory",),
    "feeding": ("feeding",),
    "collectives": ("collectives",),
    "parallel": ("parallel",),
    "platforms": ("platforms",),
    "fleet": ("fleet",),
    "serving": ("serving",),
    "stability": ("stability",),
    "capstone": ("capstone",),
    "unit": ("traces", "unit"),
    "project": ("project",),
}


@cache
def pages() -> dict[str, Path]:
    """The page of each chapter with exercises, by the chapter's name."""
    found = {page.stem: page for page in (ROOT / "chapters").rglob("*.md")}
    return {folder.name: found[folder.name] for folder in sorted((ROOT / "exercises").iterdir()) if folder.name in found}


@cache
def all_widgets() -> frozenset[str]:
    """The folders of widgets, as their modules are called."""
    return frozenset(path.parent.name for path in (ROOT / "gpulab" / "widgets").glob("*/__init__.py"))


@cache
def widgets(chapter: str) -> frozenset[str]:
    """The widgets that its page shows, by the folders they are in."""
    return shown_by(pages()[chapter])


def shown_by(page: Path) -> frozenset[str]:
    """The widgets of any page, with exercises or without."""
    text = page.read_text("utf-8")
    return frozenset(name for name in all_widgets() if name.title().replace("_", "") + "(" in text)


def room_of(item: pytest.Item) -> str:
    """Raises LookupError for a folder of tests that no room names."""
    folder = item.path.relative_to(TESTS).parts[0]
    for room, folders in ROOMS.items():
        if folder in folders:
            return room
    raise LookupError(f"tests/{folder} belongs to no room: name it in tests/rooms.py")


def chapters_of(item: pytest.Item) -> set[str]:
    """Those whose claims, exercises, widgets or page it tests; none for the machinery."""
    stem = item.path.stem.removeprefix("test_")
    named = {chapter for chapter in pages() if stem in (f"claims_{chapter}", f"cheats_at_{chapter}")}
    shown = {chapter for chapter in pages() if item.path.parent.name == "widgets" and stem in widgets(chapter)}
    return named | shown | ({_chapter(value) for value in _parameters(item)} & set(pages()))


def _parameters(item: pytest.Item) -> list:
    return list(item.callspec.params.values()) if hasattr(item, "callspec") else []


def _chapter(value: object) -> str:
    """Of an exercise's bench or name, ``views.patchify``, or a page's, ``tensors/views.html``."""
    name = getattr(value, "name", value)
    return Path(name.partition(".")[0]).name if isinstance(name, str) else ""
