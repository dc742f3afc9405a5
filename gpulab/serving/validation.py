"""The engine on its roofline against what others measured: ``python -m gpulab.serving.validation``.

Every entry of the group ``serving`` in ``evidence/published.yml`` is run as its source says: so many requests at once, of
equal lengths, through ``Continuous`` and ``Paged``. No constant was fitted to them. The engine is the faster one, most where
a step is short: the host's work, sampling and kernels below their peak are left out of the roofline.
"""

import statistics
from dataclasses import dataclass

from gpulab.published import Measurement, measurement, measurements
from gpulab.serving.blocks.paged import Paged
from gpulab.serving.clocks.roofline import Roofline
from gpulab.serving.engine import serve
from gpulab.serving.plan import Budget
from gpulab.serving.report import Report
from gpulab.serving.requests import Request
from gpulab.serving.schedulers.continuous import Continuous

_MODELS = {"Llama-2-7B": "Llama 2 7B", "Llama 7B": "Llama 2 7B"}
"""Llama's first 7B has the widths of Llama 2 7B."""


@dataclass(frozen=True)
class Row:
    """One measurement beside the engine's value, in the measurement's unit."""

    measurement: Measurement
    modelled: float

    @property
    def speed(self) -> float:
        """How many times as fast as published the engine is."""
        ratio = self.modelled / self.measurement.value
        return 1 / ratio if self.measurement.unit == "ms" else ratio


def rows() -> list[Row]:
    """Every published entry, run."""
    return [_row(m) for m in measurements() if m.group == "serving"]


def newer() -> Row:
    """The one row of another card and year: vLLM 0.13 with Llama 3.1 8B on an H100, 128 prompts of 32 tokens at once."""
    return _row(measurement("ao-vllm-8b-bfloat16-decode"), "H100")


def median_speed(found: list[Row]) -> float:
    return statistics.median(row.speed for row in found)


def table(found: list[Row] | None = None) -> str:
    """Published, modelled and how many times as fast, 80 columns."""
    found = rows() if found is None else found
    lines = [f"{'measurement':28}{'published':>11}{'modelled':>11}{'speed':>7}  unit"]
    for row in found:
        m = row.measurement
        lines.append(f"{m.id:28}{m.value:11,.5g}{row.modelled:11,.5g}{row.speed:7.2f}  {m.unit}")
    lines.append(f"speed: modelled over published, the median of {len(found)} is {median_speed(found):.2f}")
    return "\n".join(lines)


def _row(m: Measurement, card: str = "A100") -> Row:
    report = run(m, card)
    return Row(m, report.ttft_us[0] / 1e3 if m.unit == "ms" else report.tokens_per_s)


def run(m: Measurement, card: str = "A100") -> Report:
    """The batch that ``m`` tells of, on ``card``: equal lengths, all there at the start."""
    work, model = m.workload, m.workload["model"]
    clock = Roofline(card, _MODELS.get(model, model), cards=work.get("tensor_parallel", 1))
    batch = work.get("batch", work.get("requests"))
    prompt, most = work.get("input_tokens", work.get("prompt_tokens")), work.get("output_tokens", 200)
    trace = [Request(f"r{number}", 0.0, prompt, most) for number in range(batch)]
    blocks = Paged(clock.slots // 16, size=16)
    return serve(trace, Continuous(), blocks, clock, budget=Budget(tokens=8192, requests=batch))


if __name__ == "__main__":
    print(table())
