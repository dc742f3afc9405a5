"""A learner's token for the marking service: typed once, kept in a file that its owner alone can read."""

import getpass
import os
import sys
from pathlib import Path

from autograder.client.cannot import CannotAsk
from autograder.client.private import write_for_oneself

VARIABLE = "GPULAB_MARK_TOKEN"


def kept_at() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "gpulab-mark" / "token"


def token(anew: bool = False) -> str:
    """From the environment, from its file, or typed now. ``anew``: typed now. Raises CannotAsk where there is none."""
    if given := os.environ.get(VARIABLE, "").strip():
        if anew:
            raise CannotAsk(f"{VARIABLE} is set, and goes before a token that is typed: change it, or unset it.")
        return given
    if not anew and kept_at().is_file():
        return kept_at().read_text("utf-8").strip()
    if not _is_asked():
        raise CannotAsk(f"Your token is needed, and there is no terminal to type it in: set {VARIABLE}.")
    if typed := getpass.getpass("Your token for the marking service (it does not show): ").strip():
        return typed
    raise CannotAsk("No token was typed.")


def where_it_is() -> str:
    """What to do where the service does not know it."""
    return f"It stands in {VARIABLE}." if os.environ.get(VARIABLE) else "Then: gpulab-mark --new-token NOTEBOOK"


def keep(given: str) -> None:
    """Once the service knows it."""
    if os.environ.get(VARIABLE):
        return
    kept_at().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_for_oneself(kept_at(), f"{given}\n")


def _is_asked() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
