"""What a reader moves: anywidgets whose logic is JavaScript, alive with no kernel.

``StrideExplorer`` lies in the folder ``stride_explorer``, and so on; each is imported when it is first asked for.
"""

from importlib import import_module
from pathlib import Path

_QUIZ = ("Choice", "Question", "Quiz", "right", "wrong")
_FOLDERS = {path.parent.name for path in Path(__file__).parent.glob("*/__init__.py")}
_WIDGETS = {name.title().replace("_", ""): name for name in _FOLDERS} | dict.fromkeys(_QUIZ, "quiz")

__all__ = sorted(_WIDGETS)


def __getattr__(name: str) -> object:
    if name not in _WIDGETS:
        raise AttributeError(f"gpulab.widgets has no {name!r}; it has {', '.join(__all__)}")
    return globals().setdefault(name, getattr(import_module(f"{__name__}.{_WIDGETS[name]}"), name))


def __dir__() -> list[str]:
    return __all__
