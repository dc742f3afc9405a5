"""A record as text: what ``make evidence`` prints and the book shows."""

from evidence.workloads import HOLDS_THE_HOST


def constants(record: dict) -> str:
    """Each constant of the model, as fitted on the card and as the model assumes it."""
    lines = [f"{'constant':<36}{'here':>12}{'assumed':>12}  unit"]
    for name, constant in record["constants"].items():
        was = "" if constant["assumed"] is None else f"{constant['assumed']:.4g}"
        lines.append(f"{name:<36}{constant['value']:>12.4g}{was:>12}  {constant['unit']}")
    return "\n".join(lines)


def workloads(record: dict) -> str:
    """Time of the card once the host is ahead, and the most memory allocated, beside the model's error."""
    lines = [f"{'workload':<58}{'us':>10}{'model':>8}{'peak, MB':>10}{'model':>8}"]
    for row in record["workloads"]:
        time = "us" if row["name"] in HOLDS_THE_HOST else "us_host_ahead"
        us, peak = row["measured"][time], row["measured"]["peak_bytes"]
        cells = [f"{us:.1f}" if us else "-", _error(row, time)]
        cells += [f"{peak / 1e6:.1f}" if peak else "-", _error(row, "peak_bytes")]
        lines.append(f"{row['name']:<58}{cells[0]:>10}{cells[1]:>8}{cells[2]:>10}{cells[3]:>8}")
    return "\n".join(lines)


def _error(row: dict, figure: str) -> str:
    error = row.get(f"error_{figure}")  # none before the model is put beside
    return "-" if error is None else f"{error:+.1%}" if abs(error) < 0.1 else f"{error:+.0%}"


def kernels(record: dict) -> str:
    """The exercises' own solutions at full size: time, share of the roof, the others' time over theirs."""
    lines = [f"{'kernel':<46}{'us':>9}{'of the roof':>13}{'library/it':>12}{'compile/it':>12}"]
    for row in record["kernels"]:
        if row["why"] or not row["right"]:
            lines.append(f"{row['name']:<46}  {row['why'] or 'wrong: error ' + format(row['error'], '.2g')}")
            continue
        share, ratio = row["share_of_roof"], row["ratio_to"]
        cells = ["-" if share is None else f"{share:.1%}"]
        cells += [f"{ratio[call]:.2f}" if call in ratio else "-" for call in ("library", "torch.compile")]
        lines.append(
            f"{row['name']:<46}{row['us']['kernel']['median']:>9.1f}{cells[0]:>13}{cells[1]:>12}{cells[2]:>12}"
        )
    return "\n".join(lines)


def counters(record: dict) -> str:
    """How many probes did what the interpreter predicts, and where one did not, what."""
    found = record["counters"]
    rows = found["kernels"]
    if found["why"]:
        return f"Counters of {len(rows)} kernels are predicted, none is read: {found['why']}"
    lines = [f"Counters: {sum(row['differs'] == [] for row in rows)} of {len(rows)} kernels do what was predicted"]
    for row in rows:
        for name in row["differs"]:
            lines.append(f"  {row['name']}: {name} predicted {row['predicted'][name]}, counted {row['counted'][name]}")
    return "\n".join(lines)


def study(record: dict, name: str) -> str:
    """A study's rows: each figure as measured, and beside it the model's, where it has one."""
    found = record["studies"][name]
    lines = [f"{name}: {found['about']}"]
    for row, figures in found["measured"].items():
        model = (found["modelled"] or {}).get(row, {})
        cells = [f"{figure} {_figure(value)}{_beside(model.get(figure))}" for figure, value in figures.items()]
        lines.append(f"  {row:<46}" + "; ".join(cells))
    return "\n".join(lines)


def _figure(value: float | str | None) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _beside(value: float | str | None) -> str:
    return "" if value is None else f" (model {_figure(value)})"


def cells(record: dict) -> str:
    """How many cells of the book's files ran on the card, and which raised."""
    found = record["cells"]
    ran = sum(one.get("cells", 0) for one in found.values())
    lines = [f"Cells: {ran} of {len(found)} files"]
    for name, one in found.items():
        if "why" in one:
            lines.append(f"  {name}: {one['why']}")
        lines += [f"  {name}, cell {bad['cell']}: {bad['error']}" for bad in one.get("raised", [])]
    return "\n".join(lines)
