"""A dashboard of sixteen ranks in which the culprit hides: one to name in each of five jobs."""

import anywidget
import traitlets

from gpulab.widgets._source import module, style
from gpulab.widgets.quiz import plain
from gpulab.widgets.rank_dashboard.questions import JOBS, METRICS, QUESTIONS, RANKS, STEPS, TP


class RankDashboard(anywidget.AnyWidget):
    """Jobs under letters; the reader chooses a metric, reads it by rank and step, and commits to a culprit.

    Args:
        job: the one to begin with, from 0. metric: one of :data:`METRICS`. rank, step: where the cursor stands.

    Raises:
        ValueError: for a job, a metric, a rank or a step that is not there.
    """

    _esm = module("rank_dashboard")
    _css = style("quiz", "rank_dashboard")
    job = traitlets.Int().tag(sync=True)
    metric = traitlets.Unicode().tag(sync=True)
    rank = traitlets.Int().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    tp = traitlets.Int(TP).tag(sync=True)
    metrics = traitlets.List().tag(sync=True)
    jobs = traitlets.List().tag(sync=True)
    questions = traitlets.List().tag(sync=True)

    def __init__(self, job: int = 0, metric: str = "dp_ms", rank: int = 0, step: int = 0):
        if not (0 <= job < len(JOBS) and 0 <= rank < RANKS and 0 <= step < STEPS and metric in METRICS):
            raise ValueError(
                f"there are {len(JOBS)} jobs of {RANKS} ranks and {STEPS} steps, and the metrics {', '.join(METRICS)}"
            )
        # Jobs differ, so that two questions of the same words are remembered apart.
        asked = [plain(question) | {"job": number} for number, question in enumerate(QUESTIONS.values())]
        super().__init__(
            job=job,
            metric=metric,
            rank=rank,
            step=step,
            metrics=[list(pair) for pair in METRICS.items()],
            jobs=[JOBS[name] for name in QUESTIONS],
            questions=asked,
        )
