"""A figure of a pipeline's schedule, GPU by GPU and slot by slot."""

from collections.abc import Collection

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from gpulab.parallel.actions import Action, Place, Table, places
from gpulab.parallel.measures import idle_share, most_in_flight, slots
from gpulab.parallel.placing import Span
from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style

# Forward passes in one colour, backward passes in the other, its halves lighter; a thick edge marks what is wrong.
_LOOKS = {"F": (ACCENT, 0.45), "B": (WARNING, 0.45), "I": (WARNING, 0.45), "W": (WARNING, 0.2)}


def schedule_figure(table: Table, what: str, wrong: Collection[Place] = ()) -> Figure:
    """A table as it stands. what: the schedule's name, for caption and alt text; wrong: places to mark."""
    spans = [[] for _ in table]
    for action, place in places(table):
        spans[place.gpu].append((Span(str(action), place.slot, place.slot + 1), place in wrong))
    alt = (
        f"{what}: {len(table)} GPUs, {slots(table)} slots, {idle_share(table):.0%} of them idle; "
        f"at most {', '.join(map(str, most_in_flight(table)))} activations in flight."
    )
    return _drawn(spans, alt + (f" {len(set(wrong))} places are marked as wrong." if wrong else ""), what, "slot")


def spans_figure(spans: list[list[Span]], what: str) -> Figure:
    """Spans of unlike lengths, as :func:`gpulab.parallel.timed` gives them."""
    end = max((span.end for row in spans for span in row), default=0)
    busy = sum(span.end - span.start for row in spans for span in row)
    share = 1 - busy / (end * len(spans)) if end else 0.0
    alt = f"{what}: {len(spans)} GPUs, {end:g} units of time, {share:.0%} of them idle."
    return _drawn([[(span, False) for span in row] for row in spans], alt, what, "units of time")


def _drawn(rows: list[list[tuple[Span, bool]]], alt: str, caption: str, unit: str) -> Figure:
    end = max((span.end for row in rows for span, _ in row), default=1)
    several = len({Action.of(span.action).stage for row in rows for span, _ in row}) > len(rows)
    with style():
        figure, axes = plt.subplots(figsize=(7, 0.7 + 0.42 * len(rows)))
        for gpu, row in enumerate(rows):
            for span, is_wrong in row:
                _cell(axes, gpu, span, is_wrong, several, end)
        axes.set(xlim=(0, end), ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)), xlabel=unit)
        axes.set_yticklabels([f"GPU {gpu}" for gpu in range(len(rows))])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    return Figure.of(figure, alt, caption)


def _cell(axes, gpu: int, span: Span, is_wrong: bool, several: bool, end: float) -> None:
    action = Action.of(span.action)
    colour, alpha = _LOOKS[action.kind]
    axes.add_patch(
        Rectangle((span.start, gpu - 0.4), span.end - span.start, 0.8, facecolor=colour, alpha=alpha, linewidth=0)
    )
    axes.add_patch(
        Rectangle(
            (span.start, gpu - 0.4),
            span.end - span.start,
            0.8,
            fill=False,
            edgecolor=INK,
            linewidth=3.0 if is_wrong else 0.4,
        )
    )
    text = str(action) if several else f"{action.kind}{action.microbatch}"
    room = 420 / end * (span.end - span.start)  # in points, about
    if room > 4.5 * len(text):
        axes.text(
            (span.start + span.end) / 2, gpu, text, ha="center", va="center", fontsize=min(10, room / len(text) * 1.3)
        )
