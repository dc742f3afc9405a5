"""What a loop over a DataLoader waited for, as lines of text."""

from itertools import groupby
from typing import TYPE_CHECKING

from gpulab.observe.columns import columns, sentence
from gpulab.observe.records import Batch
from gpulab.units import plural

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation

_STAGES = (("dataset", "dataset_us"), ("collate", "collate_us"), ("pinning", "pin_us"))


def loader_lines(seen: "Observation") -> list[str]:
    """Below the table of operations, a summary of each pass over a loader; nothing where no batch was taken."""
    texts = [text for batches in _passes(seen) for text in _summary(batches)]
    return ["", *(line for text in texts for line in sentence(text))] if texts else []


def loader_table(seen: "Observation") -> str:
    """Of each pass over a loader its summary, then a row for each batch."""
    if not seen.batches:
        return "No batch was taken from a DataLoader inside the block."
    parts = []
    for batches in _passes(seen):
        lines = [line for text in _summary(batches) for line in sentence(text)]
        parts.append("\n".join([*lines, "", *columns(_rows(batches))]))
    return "\n\n".join(parts)


def _passes(seen: "Observation") -> list[list[Batch]]:
    ordered = sorted(seen.batches, key=lambda batch: batch.loader)
    return [list(batches) for _, batches in groupby(ordered, key=lambda batch: batch.loader)]


def _summary(batches: list[Batch]) -> list[str]:
    first, last = batches[0], batches[-1]
    who = plural(first.workers, "worker") if first.workers else "no workers"
    waits = [batch.wait_us for batch in batches]
    texts = [
        f"{_count(batches)} of a DataLoader with {who}: {first.line or 'no line of yours'}",
        f"  waited {_ms(sum(waits))} of {_ms(last.given_us - first.asked_us)}, {_ms(waits[0])} of them for the first",
    ]
    if first.start_us is not None:
        texts.append(f"  starting the workers took {_ms(first.start_us)} before that")
    means = [(name, _mean(batches, field)) for name, field in _STAGES]
    if known := [f"{name} {_ms(mean)}" for name, mean in means if mean is not None]:
        texts.append(f"  a batch took on average: {', '.join(known)}")
    else:
        texts.append("  its workers were started before the block: what they did is not known")
    return texts + _ready(batches)


def _count(batches: list[Batch]) -> str:
    if any(batch.samples is None for batch in batches):
        return f"{len(batches)} {'batch' if len(batches) == 1 else 'batches'}"
    return f"{len(batches)} {'batch' if len(batches) == 1 else 'batches'} of {sum(batch.samples for batch in batches)} samples"


def _ready(batches: list[Batch]) -> list[str]:
    if not batches[0].workers or any(batch.queued is None for batch in batches):
        return []
    lay = sum(batch.queued > 0 for batch in batches)
    return [f"  when the loop asked, a batch lay done {lay} of {len(batches)} times"]


def _rows(batches: list[Batch]) -> list[tuple[str, ...]]:
    rows = [("batch", "", "worker", "samples", "dataset", "collate", "pinning", "done when asked", "waited")]
    for batch in batches:
        whole = [_or_nothing(value) for value in (batch.worker, batch.samples)]
        times = [_ms(getattr(batch, field)) if getattr(batch, field) is not None else "" for _, field in _STAGES]
        rows.append((str(batch.number), "", *whole, *times, _or_nothing(batch.queued), _ms(batch.wait_us)))
    return rows


def _mean(batches: list[Batch], field: str) -> float | None:
    known = [getattr(batch, field) for batch in batches if getattr(batch, field) is not None]
    return sum(known) / len(known) if known else None


def _or_nothing(value: int | None) -> str:
    return "" if value is None else str(value)


def _ms(us: float) -> str:
    return f"{us / 1000:.1f} ms"
