"""What the instruments saw of one run."""

from collections import Counter
from dataclasses import dataclass, field

FIGURES = {
    "step_us": "the second training step, on the stream's clock",
    "input_us": "of it, the host waits for the loader",
    "late_us": "of it, the host neither launches nor waits: it does something else",
    "launches": "kernels of that step",
    "updates": "kernels of it that the optimizer launches",
    "softmaxes": "kernels of it that write a softmax, the loss's own apart",
    "unscalings": "kernels of it that a loss scale needs",
    "collectives": "collectives of it",
    "flops": "floating-point operations of it",
    "other_format_layers": "linear layers of it whose output is not bf16",
    "waits": "times in it that the host stands still for the card",
    "reads": "of these, to read a number",
    "synchronizes": "of these, for the whole card",
    "pageable_copies": "copies of it from or to pageable memory",
    "to_host_bytes": "copied to the host in it",
    "stale_bytes": "of old gradients as its forward pass begins",
    "growth_bytes": "more on the card after it than before it",
    "peak_bytes": "the most on the card in it",
    "races": "uses of the same bytes in it that nothing orders",
    "repeated_samples": "frames of the epoch that were drawn again",
    "evaluation_bytes": "the most on the card in the evaluation, above what was there",
    "first_token_us": "until the last request has its first token",
    "between_tokens_us": "from a token to the next",
    "served_launches": "kernels of all answers",
    "served_flops": "floating-point operations of all answers",
    "served_waits": "times that the host stands still for the card while it answers",
    "concatenated_bytes": "written by torch.cat into growing caches, while it answers",
}
"""Every figure: what it is. Of all of them less is better. Times are modelled on the virtual card."""


@dataclass(frozen=True)
class Report:
    """figures: of :data:`FIGURES`. losses: of each step before its update, and of the evaluation. answers: token ids by request.

    kernels, waiting: of the measured step, how many by name and by reason.
    """

    figures: dict[str, float]
    losses: tuple[float, ...]
    answers: tuple[tuple[int, ...], ...]
    kernels: Counter = field(repr=False, default_factory=Counter)
    waiting: Counter = field(repr=False, default_factory=Counter)

    def __getitem__(self, figure: str) -> float:
        return self.figures[figure]

    def above(self, most: dict[str, float]) -> dict[str, float]:
        """The figures that are more than ``most`` allows, and by how many times; infinite where nothing is allowed."""
        return {
            name: self.figures[name] / limit if limit else float("inf")
            for name, limit in most.items()
            if self.figures[name] > limit
        }

    def table(self, most: dict[str, float] | None = None) -> str:
        """A row for each figure; with ``most``, for each that is more than it allows."""
        shown = self.above(most) if most else self.figures
        lines = [f"{'figure':20}{'this run':>12}" + (f"{'at most':>12}" if most else "")]
        for name in shown:
            lines.append(
                f"{name:20}{self.figures[name]:12,.0f}"
                + (f"{most[name]:12,.0f}" if most else "")
                + f"  {FIGURES[name]}"
            )
        return "\n".join([*lines, "losses " + " ".join(f"{loss:.4f}" for loss in self.losses)])

    def __repr__(self) -> str:
        return self.table()
