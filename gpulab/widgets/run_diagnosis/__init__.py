"""Recorded training runs to diagnose: one healthy, six broken, each with a question."""

import anywidget
import traitlets

from gpulab.recordings import recording
from gpulab.widgets._source import module, style
from gpulab.widgets.quiz import plain
from gpulab.widgets.run_diagnosis.questions import QUESTIONS


class RunDiagnosis(anywidget.AnyWidget):
    """The runs of :mod:`gpulab.recordings` under letters; the reader reads their curves and commits to a diagnosis.

    Args:
        run: the run to begin with, from 0. step: where the cursor stands.

    Raises:
        ValueError: for a run or a step that is not there.
    """

    _esm = module("run_diagnosis")
    _css = style("quiz", "run_diagnosis")
    run = traitlets.Int().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    most = traitlets.Int(4).tag(sync=True)
    runs = traitlets.List().tag(sync=True)
    questions = traitlets.List().tag(sync=True)

    def __init__(self, run: int = 0, step: int = 0):
        runs = [
            {key: told[key] for key in ("loss", "norm", "lr", "scale", "held_out")}
            for told in map(recording, QUESTIONS)
        ]
        if not 0 <= run < len(runs) or not 0 <= step < len(runs[0]["loss"]):
            raise ValueError(
                f"run {run}, step {step}: there are {len(runs)} runs of {len(runs[0]['loss'])} steps, from 0 on"
            )
        # Runs differ, so that two questions of the same words are remembered apart.
        asked = [plain(question) | {"run": number} for number, question in enumerate(QUESTIONS.values())]
        super().__init__(run=run, step=step, runs=runs, questions=asked)
