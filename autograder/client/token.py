"""A learner's token for the marking service: typed once, kept in a file that its owner alone can read."""

import getpass
import os
import sys
from pathlib import Path

VARIABLE = "GPULAB_MARK_TOKEN"


def kept_at() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "gpulab-mark" / "token"


def token(anew: bool = False) -> str:
    """From the environment, from its file, or typed now. ``anew``: not from its file. Empty where there is nobody to ask."""
    if given := os.environ.get(VARIABLE, "").strip():
        return given
    if not anew and kept_at().is_file():
        return kept_at().read_text("utf-8").strip()
    return getpass.getpass("Your token for the marking service (it does not show): ").strip() if _is_asked() else ""


def keep(given: str) -> None:
    """Once the service knows it."""
    if os.environ.get(VARIABLE):
        return
    kept_at().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(kept_at(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{given}\n")


def _is_asked() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
