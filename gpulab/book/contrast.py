"""Functions that return the same values, side by side with what each of them did."""

import inspect
from collections.abc import Callable
from html import escape
from pathlib import Path
from textwrap import dedent

import torch

from gpulab.observe import Observation, observe
from gpulab.units import format_bytes, plural

_STYLE = Path(__file__).with_name("contrast.css").read_text(encoding="utf-8")


class Contrast:
    """What ``contrast`` shows, as HTML."""

    def __init__(self, html: str):
        self._html = html

    def _repr_html_(self) -> str:
        return self._html


def contrast(*functions: Callable[[torch.Tensor], torch.Tensor], argument: torch.Tensor) -> Contrast:
    """Run each function on ``argument`` under ``observe()`` and draw its source beside what it copied.

    Raises:
        ValueError: when the functions do not return equal values: then there is nothing to contrast.
    """
    runs = [(function, *_observed(function, argument)) for function in functions]
    _, expected, _ = runs[0]
    for function, values, _ in runs[1:]:
        if not torch.equal(values, expected):
            raise ValueError(f"{function.__name__} and {functions[0].__name__} return different values")
    most = max(seen.copied_bytes for *_, seen in runs) or 1
    cards = "".join(_card(function, seen, most) for function, _, seen in runs)
    shape = ", ".join(map(str, expected.shape))
    same = f"<p><code>torch.equal</code> says <strong>True</strong>: the same {expected.numel()} values, shape ({shape}).</p>"
    return Contrast(f'<style>{_STYLE}</style><div class="contrast"><ol>{cards}</ol>{same}</div>')


def _observed(function: Callable, argument: torch.Tensor) -> tuple[torch.Tensor, Observation]:
    with observe() as seen:
        values = function(argument)
    return values, seen


def _card(function: Callable, seen: Observation, most: int) -> str:
    source = escape(dedent(inspect.getsource(function)).strip())
    share = 100 * seen.copied_bytes / most
    kind = "copied" if seen.copied_bytes else "none"
    return (
        f'<li class="{kind}"><pre><code>{source}</code></pre>'
        f"<p><strong>{format_bytes(seen.copied_bytes)}</strong> copied</p>"
        f'<div class="bar" aria-hidden="true"><span style="width: {share:.0f}%"></span></div>'
        f"<p>{plural(len(seen.ops), 'operation')}, {plural(len(seen.copies), 'copy')}, "
        f"{format_bytes(seen.new_bytes)} of new memory</p></li>"
    )
