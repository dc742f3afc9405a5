"""An Observation replayed: host, streams and copy engines, one step at a time."""

from typing import TYPE_CHECKING

import anywidget
import traitlets

from gpulab.widgets._source import module, style

if TYPE_CHECKING:
    from gpulab.observe import Observation

MAX_STEPS = 300
_LINES = ("line", "first_line", "second_line")


class TimelinePlayer(anywidget.AnyWidget):
    """Kernels, copies, host waits and races of one block, replayed with no kernel.

    Args:
        seen: the observation; its plain data goes into the page.
        label: what the timeline shows, for the heading. May hold `code` between backticks.
        step: the step to start at, from 1.

    Raises:
        ValueError: when the device did nothing inside the block, or so much that no reader
            would step through it.
        RuntimeError: when the observation could not read the device.
    """

    _esm = module("timeline_player")
    _css = style("timeline_player")
    timeline = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode("Timeline").tag(sync=True)
    step = traitlets.Int(1).tag(sync=True)

    def __init__(self, seen: "Observation", label: str = "Timeline", step: int = 1):
        timeline = _of_the_device(seen)
        count = sum(len(timeline[name]) for name in ("kernels", "copies", "waits"))
        if not count:
            raise ValueError("the device did nothing inside the block: there is nothing to replay")
        if count > MAX_STEPS:
            raise ValueError(
                f"{count} steps are too many to step through: observe a shorter block, {MAX_STEPS} at most"
            )
        if not 1 <= step <= count:
            raise ValueError(f"step {step} of {count}: the first is 1")
        super().__init__(timeline=timeline, label=label, step=step)


def _of_the_device(seen: "Observation") -> dict:
    """The device's part of ``seen.to_dict()``, files of lines as numbers: a page shows no paths."""
    seen.kernels  # raises where no instrument read the device
    data, files = seen.to_dict(), {}
    moved = [copy for copy in data["copies"] if copy["kind"] in ("HtoD", "DtoH")]
    records = {"kernels": data["kernels"], "copies": moved, "waits": data["waits"], "races": data["races"]}
    plain = {name: [_without_paths(record, files) for record in own] for name, own in records.items()}
    return plain | {"device": data["device"]}


def _without_paths(record: dict, files: dict[str, int]) -> dict:
    lines = {name: record[name] for name in _LINES if record.get(name)}
    return record | {name: line | {"file": files.setdefault(line["file"], len(files))} for name, line in lines.items()}
