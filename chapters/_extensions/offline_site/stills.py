"""A widget as it stands before a reader touches it, drawn by its own code when the book is built."""

import json
import re
from pathlib import Path

from py_mini_racer import MiniRacer

DOCUMENT = Path(__file__).with_name("document.js").read_text("utf-8")
EXPORT = re.compile(r"^export (default )?", re.M)


def still(model: dict, number: int = 0) -> str:
    """The HTML that the widget's ``render`` makes, then what its ``withoutScript`` adds for readers without one.

    Args:
        model: the widget's state, its module under ``_esm``.
        number: another one for each view of a page; names within the page are made from it.
    """
    module = EXPORT.sub(lambda found: "globalThis.widget = " if found[1] else "", model["_esm"])
    state = {key: value for key, value in model.items() if key not in ("_esm", "_css")}
    with MiniRacer() as engine:
        engine.eval(DOCUMENT)
        engine.eval(f"(() => {{ {module}\n }})()")
        return engine.eval(f"drawStill({json.dumps(json.dumps(state))}, {number})")
