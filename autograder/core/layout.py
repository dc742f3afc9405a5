"""Where the files of exercises lie: ``exercises/<chapter>/`` and in it a folder for each exercise."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
NOTEBOOK = "notebook.py"
"""A chapter's text notebook: statements, solutions, visible checks."""


def judge_module(chapter: str, exercise: str) -> str:
    """The module whose ``exercise`` draws cases and judges them; imported by the grader alone."""
    return f"exercises.{chapter}.{exercise}.judge"


def run_module(chapter: str, exercise: str) -> str:
    """The module whose ``run`` calls the learner's function; imported in the learner's process."""
    return f"exercises.{chapter}.{exercise}.run"


def file_of(module: str) -> str:
    """``exercises/views/compact/run.py``, for an author to find."""
    return f"{module.replace('.', '/')}.py"


def is_beside_the_learner(name: str) -> bool:
    """Whether a file of this name runs in the learner's process: ``run.py``, ``run_<part>.py``, ``shared.py``.

    No other file of ``exercises/`` is in the sandbox.
    """
    return name in ("run.py", "shared.py") or (name.startswith("run_") and name.endswith(".py"))


def beside_the_learner(chapter: str = "") -> list[str]:
    """Those files of a chapter, or of all, relative to ``ROOT``, by name."""
    found = (path for path in (ROOT / "exercises" / chapter).rglob("*.py") if is_beside_the_learner(path.name))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def run_modules(chapter: str) -> list[str]:
    """The modules of a chapter that run in the learner's process, by name."""
    return [name.removesuffix(".py").replace("/", ".") for name in beside_the_learner(chapter)]


def imported(module: str) -> ModuleType | None:
    """The module, or None where it is missing; raises what it raises itself, or for another that it lacks."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        return None
