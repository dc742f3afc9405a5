"""Which chapters and which room of the machinery a test belongs to.

``make test CHAPTER=views`` and ``make test ONLY=grader`` choose by it, and a run's costs are summed by it. What belongs to
drafts alone runs where its chapter or its room is asked for.
"""

from functools import cache
from pathlib import Path

import pytest

from autograder.authoring.drafts import Drafts, is_shown

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DRAFTS = Drafts(ROOT)
ROOMS = {
    "grader": ("exploits", "faults", "flags", "grading", "intake", "lms", "marking", "pipeline"),
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
    "project": ("audit", "project"),
}


@cache
def pages() -> dict[str, Path]:
    """The page of each chapter with exercises, by the chapter's name."""
    found = {page.stem: page for page in (ROOT / "chapters").rglob("*.md")}
    return {
        folder.name: found[folder.name] for folder in sorted((ROOT / "exercises").iterdir()) if folder.name in found
    }


@cache
def all_widgets() -> frozenset[str]:
    """The folders of widgets, as their modules are called."""
    return frozenset(DRAFTS.shown)


@cache
def widgets(chapter: str) -> frozenset[str]:
    """The widgets that its page shows, by the folders they are in."""
    return shown_by(pages()[chapter])


def shown_by(page: Path) -> frozenset[str]:
    """The widgets of any page, with exercises or without."""
    text = page.read_text("utf-8")
    return frozenset(name for name in all_widgets() if is_shown(name, text))


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


def belongs_to(item: pytest.Item, chapter: str) -> bool:
    """Whether it tests the chapter, or what only this chapter and few others need."""
    return chapter in chapters_of(item) or chapter in DRAFTS.owners(_below_root(item.path))


def is_draft_file(path: Path, chapter: str | None = None, room: str | None = None) -> bool:
    """Whether the file or folder of tests is of drafts alone, and neither of ``chapter`` nor in ``room``, which were asked for."""
    below = _below_root(path)
    asked = chapter in DRAFTS.owners(below) or (
        room and _folder(path) in ROOMS[room] and DRAFTS.alone_need(f"tests/{_folder(path)}")
    )
    return DRAFTS.alone_need(below) and not asked


def is_draft(item: pytest.Item, chapter: str | None = None) -> bool:
    """Whether its parameters name drafts alone, and not ``chapter``, which was asked for."""
    named = {_chapter(value) for value in _parameters(item)} & set(pages())
    return bool(named) and named <= DRAFTS.contents.draft_names - {chapter}


def _below_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""


def _folder(path: Path) -> str:
    return (*path.relative_to(TESTS).parts, "")[0]


def _parameters(item: pytest.Item) -> list:
    return list(item.callspec.params.values()) if hasattr(item, "callspec") else []


def _chapter(value: object) -> str:
    """Of an authored exercise or its name, ``views.patchify``, or a page's, ``tensors/views.html``."""
    name = getattr(value, "name", value)
    return Path(name.partition(".")[0]).name if isinstance(name, str) else ""
