"""What autograd saved for the backward pass, as lines of text."""

from typing import TYPE_CHECKING

from gpulab.observe.columns import columns, sentence
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation


def saved_lines(seen: "Observation") -> list[str]:
    """What stands below the table of operations: nothing where nobody asked what is saved."""
    return ["", *saved_table(seen).splitlines()] if "saved" in vars(seen) else []


def saved_table(seen: "Observation") -> str:
    """How many bytes are kept, then a row for each saved tensor. A storage counts where it is saved first."""
    if not seen.saved:
        return "Nothing was saved for backward."
    return "\n".join([*sentence(_headline(seen)), "", *columns(_rows(seen), left=(2, 3))])


def _headline(seen: "Observation") -> str:
    own = {saved.storage for saved in seen.saved if saved.origin != "parameter"}
    parameters = {saved.storage for saved in seen.saved} - own
    where = f"{plural(len(own), 'storage')} of {format_bytes(seen.saved_bytes)}"
    text = f"{plural(len(seen.saved), 'tensor')} saved for backward in {where}"
    if parameters:
        text += f", and in {plural(len(parameters), 'parameter')}, which the model holds anyway"
    if seen.kept_bytes != seen.saved_bytes:
        text += f"; at the end of the block {format_bytes(seen.kept_bytes)} of them are still kept"
    return text


def _rows(seen: "Observation") -> list[tuple[str, ...]]:
    rows, met = [("line", "code", "saved by", "its", "bytes")], set()
    for saved in seen.saved:
        where = (str(saved.line.number), str(saved.line)) if saved.line else ("", "")
        size = (
            "parameter"
            if saved.origin == "parameter"
            else "again"
            if saved.storage in met
            else format_bytes(saved.bytes)
        )
        rows.append((*where, saved.op, saved.what, size))
        met.add(saved.storage)
    return rows
