"""Recordings of one training job, whole and broken in six ways: what a dashboard shows of each step.

>>> from gpulab.recordings import FAULTS, recording
>>> recording("bad batch")["norm"][180]  # doctest: +SKIP

``python -m gpulab.recordings`` (``make recordings``) makes them; ``job`` is the job, ``faults`` what is wrong with it.
"""

import json
from pathlib import Path

from gpulab.recordings.faults import FAULTS as FAULTS

_FOLDER = Path(__file__).parent / "runs"


def recording(name: str) -> dict:
    """``loss``, ``norm``, ``lr`` and ``scale``, a number for each step, None where it is not finite.

    ``held_out``: pairs of a step and a loss. ``what``: what is wrong, in a sentence. ``versions``: of what made it.
    Raises KeyError for a name that is not in ``FAULTS``.
    """
    if name not in FAULTS:
        raise KeyError(f"no run is called {name!r}; there are {', '.join(FAULTS)}")
    return json.loads(_file(name).read_text("utf-8"))


def keep(name: str, steps: list[dict], versions: dict[str, str]) -> None:
    """Write what :func:`gpulab.recordings.job.train` yielded of a run."""
    held_out = [[number, step["held_out"]] for number, step in enumerate(steps) if "held_out" in step]
    series = {key: [step[key] for step in steps] for key in ("loss", "norm", "lr", "scale")}
    told = {"what": FAULTS[name].__doc__, "versions": versions, **series, "held_out": held_out}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told.items())
    _file(name).parent.mkdir(exist_ok=True)
    _file(name).write_text(f"{{\n{lines}\n}}\n", "utf-8")


def _file(name: str) -> Path:
    return _FOLDER / f"{name.replace(' ', '_')}.json"
