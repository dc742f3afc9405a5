"""Runs units, as many at once as asked for, each in a session of its own; what one has found is kept before the next is looked at."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.audit.state import State
from tests.audit.units import Unit

TICK_SECONDS = 0.1


@dataclass
class Running:
    unit: Unit
    key: str
    to: Path
    log: Path
    began: float = field(default_factory=time.monotonic)
    process: subprocess.Popen = field(init=False)

    def __post_init__(self) -> None:
        self.to.unlink(missing_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*self.unit.command, str(self.to)], stdout=log, stderr=log, start_new_session=True
            )

    def end(self) -> None:
        """With all that it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def run(units: list[Unit], state: State, jobs: int, commit: str, say: Callable[[str], None] = print) -> list[str]:
    """Try what is left. Returns a sentence for each failure of all units, also of those that were tried before.

    One that was interrupted, or whose process ended without a result, is left for the next time. Raises KeyboardInterrupt at
    SIGINT and SIGTERM.
    """
    failures = [failure for unit in units for failure in failures_of(state.of(unit))]
    todo, running = left(units, state), list[Running]()
    with _interrupts() as came:
        try:
            while todo or running:
                if came():
                    raise KeyboardInterrupt
                while todo and len(running) < jobs:
                    running.append(_started(todo.pop(0), state))
                time.sleep(TICK_SECONDS)
                for one in [one for one in running if one.process.poll() is not None]:
                    running.remove(one)
                    failures += _ended(one, state, commit, say)
        finally:
            for one in running:
                one.end()
    return failures


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Asks whether one came. One that raised while a process starts would leave that process behind."""
    came: list[int] = []
    handlers = {
        one: signal.signal(one, lambda number, frame: came.append(number)) for one in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(came)
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)


def left(units: list[Unit], state: State) -> list[Unit]:
    return [unit for unit in units if state.of(unit) is None]


def failures_of(kept: dict | None) -> list[str]:
    return [failure for one in kept["found"].values() for failure in one["failures"]] if kept else []


def _started(unit: Unit, state: State) -> Running:
    state.folder.mkdir(parents=True, exist_ok=True)
    return Running(unit, state.key(unit), state.folder / f"{unit.file}.found", state.folder / f"{unit.file}.log")


def _ended(one: Running, state: State, commit: str, say: Callable[[str], None]) -> list[str]:
    one.end()
    seconds = round(time.monotonic() - one.began, 1)
    if one.process.returncode or not one.to.exists():
        said = f"{one.unit.name} ended with status {one.process.returncode} and found nothing: {one.log}"
        say(f"{said} ({seconds} s)")
        return [said]
    found = json.loads(one.to.read_text())
    date = datetime.now(UTC).isoformat(timespec="seconds")
    state.keep(one.unit, one.key, found, {"commit": commit, "date": date, "seconds": seconds})
    failures = failures_of({"found": found})
    say(f"{one.unit.name}: {len(failures) or 'no'} failure{'s' if len(failures) > 1 else ''} ({seconds} s)")
    return failures
