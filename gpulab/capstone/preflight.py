"""The checklist before a long run, executed: each check is some figures of a short one."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpulab.capstone.report import Report

CHECKS: dict[str, tuple[str, ...]] = {
    "data: every sample once": ("repeated_samples",),
    "storage: the loop never waits": ("input_us", "pageable_copies", "late_us"),
    "numbers: in the format that was asked for": ("other_format_layers", "unscalings"),
    "memory: as planned, and not growing": ("peak_bytes", "growth_bytes", "stale_bytes", "evaluation_bytes"),
    "work: nothing twice, nothing written out": ("flops", "softmaxes", "updates"),
    "network: few collectives": ("collectives",),
    "order: streams wait for each other": ("races",),
    "monitoring: the host does not wait": ("reads", "synchronizes"),
    "checkpoints: not in every step": ("to_host_bytes",),
    "serving: one batch, one cache, no wait": ("served_launches", "served_flops", "served_waits", "concatenated_bytes"),
}


@dataclass(frozen=True)
class Check:
    """One line of the list; ``failed``: the figures that are above their targets."""

    name: str
    failed: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        return f"[{'x' if self.passed else ' '}] {self.name:43}{', '.join(self.failed)}".rstrip()


def preflight(report: Report, targets: Mapping[str, float]) -> list[Check]:
    """The list, with what a short run says to each line."""
    above = report.above(dict(targets))
    return [Check(name, tuple(figure for figure in figures if figure in above)) for name, figures in CHECKS.items()]
