"""Several runs side by side, as a text table."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulab.serving.report import Report

WIDTH = 80
_NAME, _COLUMN = 32, 12


def _ms(values: str, *percents: int) -> list[tuple[str, Callable[["Report"], str]]]:
    """A line for each percentile; 100 is the longest."""

    def line(percent: int) -> Callable[["Report"], str]:
        return lambda report: _number(report.percentiles(getattr(report, values), percent)[0] / 1e3)

    return [("max" if percent == 100 else f"p{percent}", line(percent)) for percent in percents]


_COUNTS = (
    ("finished", "finished"),
    ("aborted", "aborted"),
    ("refused", "refused"),
    ("deadlines missed", "late"),
    ("preemptions", "preemptions"),
    ("steps", "steps"),
)
_TIMES = (
    ("time to first token", "ttft_us", (50, 90, 99)),
    ("time per output token", "tpot_us", (50, 99)),
    ("gap between tokens", "gaps_us", (50, 99, 100)),
    ("arrival to last token", "total_us", (50, 90, 99)),
)


def compare(reports: Mapping[str, "Report"]) -> str:
    """Metrics down, runs across: at most four of them, in 80 columns. Raises ValueError for more."""
    if len(reports) > (WIDTH - _NAME) // _COLUMN:
        raise ValueError(f"{len(reports)} runs are too many for {WIDTH} columns: compare four at a time")
    runs = list(reports.values())
    times = {"modelled" if report.modelled else "measured" for report in runs}
    lines = [_row(f"times {' or '.join(sorted(times))}", [name[: _COLUMN - 1] for name in reports])]
    lines += [_row(label, [_number(_count(getattr(run, name))) for run in runs]) for label, name in _COUNTS]
    lines += [_row("output tokens a second", [_number(run.tokens_per_s) for run in runs])]
    lines += [_row("requests a second", [_number(run.requests_per_s) for run in runs])]
    for label, values, percents in _TIMES:
        for name, cell in _ms(values, *percents):
            lines.append(_row(f"{label}, {name}, ms", [cell(run) for run in runs]))
    if any(run.found_share for run in runs):
        lines += [_row("of prompts, in the cache, %", [f"{100 * run.found_share:.1f}" for run in runs])]
    lines += [_row("cache reserved, not filled, %", [f"{100 * run.kv_waste:.1f}" for run in runs])]
    lines += [_row("places idle, %", [f"{100 * run.idle_slots:.1f}" for run in runs])]
    return "\n".join(lines)


def _row(label: str, cells: Sequence[str]) -> str:
    return f"{label:{_NAME}}{''.join(f'{cell:>{_COLUMN}}' for cell in cells)}".rstrip()


def _count(value: int | list) -> int:
    return value if isinstance(value, int) else len(value)


def _number(value: float) -> str:
    """Three digits that matter, thousands grouped; a dash for what is not there."""
    if value != value:
        return "-"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
