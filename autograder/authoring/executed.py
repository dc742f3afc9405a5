"""Which files of gpulab and autograder plays of an exercise execute or read: what a record of its trials stands on besides its own.

coverage.py, and with it pytest-testmon, loses what a process did that is killed, as ranks are: a function notes its file
here when it is called first, whatever becomes of its process.
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from autograder.authoring.authored import SEEDS, AuthoredExercise
from autograder.authoring.meaning import digest
from autograder.authoring.traced import Seen, calls_traced, seen_in
from autograder.core.layout import ROOT
from autograder.notebooks.cells import solution_of

COUNTED = ("autograder", "gpulab")
HARNESS = "autograder/authoring/"
"""Plays attempts for authors; what it hands to judge and runner is what they are handed in a kernel."""


def executed_by(authored: AuthoredExercise) -> dict[str, str]:
    """The digest of each file that plays of the solution execute, take constants from or read, by its path in the repository.

    Raises RuntimeError where none was seen.
    """
    files = {_in_course(file) for file in seen_in(_play, authored)}
    ran = {file for file in files if file.startswith(_folders(COUNTED))}
    if not ran:
        raise RuntimeError(f"no file of gpulab or autograder was seen while {authored.name} was played")
    found = ran | {file for one in files if one.endswith(".py") for file in _constants_from(ROOT / one)}
    return {file: digest(ROOT / file) for file in sorted(found) if not file.startswith(HARNESS)}


def changed(executed: dict[str, str]) -> list[str]:
    """Those of the files that are gone or whose digest is another now."""
    return [file for file, was in executed.items() if not (ROOT / file).is_file() or digest(ROOT / file) != was]


def _play(authored: AuthoredExercise, seen: Seen) -> None:
    """The notebook from its first cell on, and the hidden tests with the gates' seeds."""
    solution, files = solution_of(authored.notebook, authored.function), Files(seen)
    sys.addaudithook(files.opened)
    with calls_traced(files.called):
        authored.begin(anew=True)
        authored.go_on(solution, authored.grade_id)
        for seed in SEEDS:
            authored.lost(solution, seed)


class Files:
    """Adds the path of each of the course's files when it is read, or a function of it called other than in an import."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._of_course = tuple(f"{ROOT}/{folder}" for folder in _folders((*COUNTED, "exercises")))
        self._settled: set[str] = set()

    def called(self, frame: FrameType) -> None:
        file = frame.f_code.co_filename
        if file in self._settled:
            return
        in_a_function = frame.f_code.co_flags & inspect.CO_NEWLOCALS
        if not file.startswith(self._of_course) or in_a_function and not _while_importing(frame):
            self._settle(file)

    def opened(self, event: str, arguments: tuple) -> None:
        """What ``sys.addaudithook`` is handed."""
        if event == "open" and isinstance(arguments[0], str) and not arguments[0].endswith((".py", ".pyc")):
            self._settle(arguments[0])

    def _settle(self, file: str) -> None:
        if file in self._settled:
            return
        self._settled.add(file)
        if file.startswith(self._of_course) and Path(file).is_file():
            self._seen.add(file)


def _while_importing(frame: FrameType | None) -> bool:
    while frame:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _folders(rooms: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{room}/" for room in rooms)


def _in_course(path: str) -> str:
    return Path(path).relative_to(ROOT).as_posix()


def _constants_from(path: Path) -> Iterator[str]:
    """The files of which a file imports a name that no function is: constants and classes act without being called."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in COUNTED:
            file = ROOT / f"{node.module.replace('.', '/')}.py"
            if file.is_file() and {alias.name for alias in node.names} & _not_called(file):
                yield _in_course(str(file))


def _not_called(file: Path) -> set[str]:
    """The names that a module binds to anything but a function."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and not any(isinstance(one, ast.FunctionDef) for one in node.body):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return names
