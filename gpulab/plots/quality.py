"""A figure of success rate against bytes of the weights: what a policy can still do with fewer of them."""

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style


def quality_by_bytes(record: dict) -> Figure:
    """A row for each format of the weights, most bytes first: bytes that the policy holds, and its success.

    record: as ``gpulab.model.quantised.record`` returns it. Raises ValueError without points.
    """
    points = sorted(record["weights"], key=lambda point: -point["bytes"])
    alt = "; ".join(f"{p['name']}: {p['bytes'] / 1e3:.0f} kB, {p['success']:.1%}" for p in points)
    return _rows(
        points,
        {"weights": [p["bytes"] / 1e3 for p in points]},
        "kB held",
        {"success": ("success", "spread")},
        f"Bytes of the weights and success of {record['episodes']} episodes. {alt}.",
        _caption(record, "Line: 95 % interval."),
    )


def adapted(record: dict) -> Figure:
    """A row for each way to fine-tune: bytes that training holds, and success in the changed world."""
    points = record["adapted"]
    held = {name: [p[f"{name}_bytes"] / 1e3 for p in points] for name in ("parameter", "gradient", "optimizer")}
    alt = "; ".join(
        f"{p['name']}: {sum(held[name][i] for name in held):.0f} kB, {p['success']:.1%}" for i, p in enumerate(points)
    )
    shares = {"changed world": ("success", "spread")}
    alt = f"Bytes held in training, and success in the changed world. {alt}."
    before = f"One seed a point. Without fine-tuning {record['unadapted']['success']:.1%} in the changed world."
    return _rows(points, held, "kB: parameters, gradients, optimizer", shares, alt, _caption(record, before))


def _rows(points: list[dict], held: dict, bytes_label: str, shares: dict, alt: str, caption: str) -> Figure:
    """Left bars of bytes, stacked; right a mark for each share, with its interval."""
    if not points:
        raise ValueError("the record holds no point: there is nothing to draw")
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 0.9 + 0.34 * len(points)), sharey=True)
        _bars(left, held)
        for (name, keys), colour, mark, lift in zip(
            shares.items(), (ACCENT, WARNING), "os", (-0.12, 0.12), strict=False
        ):
            _marks(right, points, keys, lift * (len(shares) - 1), colour, mark, name)
        left.set_yticks(range(len(points)), [point["name"] for point in points])
        left.invert_yaxis()
        left.set_xlabel(bytes_label, size=9)
        right.tick_params(axis="y", left=False)
        right.set_xlim(-2, 102)
        right.set_xlabel("success, %" if len(shares) == 1 else "success, %: ● changed world, ■ before", size=9)
        right.grid(axis="x", color=INK, alpha=0.15)
        figure.tight_layout()
    return Figure.of(figure, alt=alt, caption=caption)


def _bars(axes, held: dict[str, list[float]]) -> None:
    rows = range(len(next(iter(held.values()))))
    ends = [0.0 for _ in rows]
    for sizes, alpha in zip(held.values(), (0.25, 0.5, 0.9), strict=False):
        axes.barh(rows, sizes, 0.6, left=ends, color=ACCENT, alpha=alpha, edgecolor=ACCENT)
        ends = [end + size for end, size in zip(ends, sizes, strict=True)]
    for row, end in zip(rows, ends, strict=True):
        axes.annotate(f"{end:,.0f}", (end, row), xytext=(3, 0), textcoords="offset points", va="center", size=9)
    axes.set_xlim(0, 1.2 * max(ends))


def _marks(axes, points: list[dict], keys: tuple[str, str], lift: float, colour: str, mark: str, name: str) -> None:
    for row, point in enumerate(points):
        share, (low, high) = 100 * point[keys[0]], point[keys[1]]
        axes.plot([100 * low, 100 * high], [row + lift] * 2, color=colour, linewidth=1.5)
        axes.plot(share, row + lift, mark, color=colour, markersize=5, label=name)


def _caption(record: dict, more: str) -> str:
    versions = record["versions"]
    return (
        f"TinyVLA, {record['episodes']} unseen episodes a point. {more} Measured on a CPU on {record['date']}: "
        f"torch {versions['torch']}, torchao {versions['torchao']}, peft {versions['peft']}."
    )
